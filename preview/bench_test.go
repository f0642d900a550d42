package preview

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

// BenchmarkUnreachable judges an edit of a datacenter of 1,600 machines in 100 racks, with 3,000
// Services of which each third has local traffic, and 10 endpoints each.
func BenchmarkUnreachable(b *testing.B) {
	var text strings.Builder
	text.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  pools: [{name: public, addresses: [10.99.0.0/16]}, {name: inner, addresses: [10.98.0.0/16], advertise: {racks: [r001, r002]}}]\n  racks:\n")
	c := Cluster{Nodes: map[string]Node{}}
	machine := func(i int) string { return fmt.Sprintf("m%04d", i) }
	for i := range 1600 {
		if i%16 == 0 {
			fmt.Fprintf(&text, "  - name: r%03d\n    routers: [{name: a%d, address: 172.16.%d.1, asn: 65101}, {name: b%d, address: 172.16.%d.2, asn: 65101}]\n    machines:\n", i/16, i/16, i/16, i/16, i/16)
		}
		fmt.Fprintf(&text, "    - {name: %s, addresses: [172.16.%d.%d]}\n", machine(i), i/16, i%16+10)
		c.Nodes[machine(i)] = Node{}
	}
	for i := range 3000 {
		var on []string
		for j := range 10 {
			on = append(on, machine((i*7+j*131)%1600))
		}
		s := service(fmt.Sprint(i), netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)}).String(), i%3 == 0, on...)
		c.Services = append(c.Services, s)
	}
	load := func(text string) *inventory.Inventory {
		inv, problems := inventory.Load(inventory.Document{Source: "dc1.yaml", Data: []byte(text)})
		if inv == nil {
			b.Fatal(problems)
		}
		return inv
	}
	before, after := load(text.String()), load(strings.Replace(text.String(), "10.99.0.0/16", "10.99.0.0/21", 1))
	for b.Loop() {
		if lost := Unreachable(before, after, c); len(lost) != 3000-2048 {
			b.Fatalf("%d are lost", len(lost))
		}
	}
}
