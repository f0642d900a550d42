package preview

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// BenchmarkFailuresOnALink has each of 32 machines of a subnet with 200 VIPs fail.
func BenchmarkFailuresOnALink(b *testing.B) {
	var text strings.Builder
	text.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec:\n  pools: [{name: lan, addresses: [10.0.1.1-10.0.1.200]}]\n  racks:\n  - name: shelf\n    subnets: [10.0.0.0/16]\n    machines:\n")
	c := Cluster{Nodes: map[string]Node{}}
	var names []string
	for i := range 32 {
		names = append(names, fmt.Sprintf("nuc%02d", i))
		fmt.Fprintf(&text, "    - {name: %s, addresses: [10.0.0.%d]}\n", names[i], i+10)
		c.Nodes[names[i]] = Node{}
	}
	for i := range 200 {
		c.Services = append(c.Services, service(fmt.Sprint(i), fmt.Sprintf("10.0.1.%d", i+1), false, names...))
	}
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(text.String())})
	if inv == nil {
		b.Fatal(problems)
	}
	for b.Loop() {
		was := Of(inv, c, Failures{})
		for _, n := range names {
			if o := Compare(was, was.With(Failures{Machines: map[string]bool{n: true}})); len(o.Lost()) > 0 || len(o.VIPs) > 10 {
				b.Fatalf("%d of 200 VIPs move, %d are lost", len(o.VIPs), len(o.Lost()))
			}
		}
	}
}
