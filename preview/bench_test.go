package preview

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// BenchmarkUnreachable judges an edit of a datacenter of 1,600 machines in 100 racks, with 3,000
// Services of which each third has local traffic, and 10 endpoints each.
func BenchmarkUnreachable(b *testing.B) {
	for _, pools := range []int{2, 100} { // of more than two, half of the VIPs are spread over all
		b.Run(fmt.Sprint("pools=", pools), func(b *testing.B) { benchmarkUnreachable(b, pools) })
	}
}

func benchmarkUnreachable(b *testing.B, pools int) {
	text, c := large(pools)
	before, after := loaded(b, text), loaded(b, strings.Replace(text, "10.99.0.0/16", "10.99.0.0/21", 1))
	want := 3000 - 2048
	if pools > 2 {
		want /= 2
	}
	for b.Loop() {
		if lost := Unreachable(before, after, c); len(lost) != want {
			b.Fatalf("%d are lost", len(lost))
		}
	}
}

// large is a datacenter of 1,600 machines in 100 racks, and its cluster with 3,000 Services. All
// pools but one are announced from two racks each.
func large(pools int) (string, Cluster) {
	var text strings.Builder
	text.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  pools:\n")
	for i := 1; i < pools; i++ {
		fmt.Fprintf(&text, "  - {name: inner%02d, addresses: [10.98.%d.0/24], advertise: {racks: [r%03d, r%03d]}}\n", i, i, i-1, i)
	}
	text.WriteString("  - {name: public, addresses: [10.99.0.0/16]}\n  racks:\n")
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
		vip := netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)})
		if pools > 2 && i%2 == 1 {
			vip = netip.AddrFrom4([4]byte{10, 98, byte(1 + i%(pools-1)), byte(i / pools)})
		}
		s := service(fmt.Sprint(i), vip.String(), i%3 == 0, on...)
		c.Services = append(c.Services, s)
	}
	return text.String(), c
}

func loaded(t testing.TB, text string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(text)})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// BenchmarkSimulate tells what the failure of a rack, a router and a machine does, pods included.
func BenchmarkSimulate(b *testing.B) {
	text, c := large(100)
	for _, mode := range []string{"fabric", "overlay"} {
		inv := loaded(b, strings.Replace(text, "  pools:\n", "  podNetwork: {mode: "+mode+", cidrs: [10.128.0.0/9]}\n  pools:\n", 1))
		carved, problems := inventory.Carve(inv, nil)
		if carved == nil {
			b.Fatal(problems)
		}
		for what, failed := range map[string]Failures{
			"rack": FailureOfRack(carved, "r007"), "router": {Routers: map[string]bool{"a7": true}}, "machine": {Machines: map[string]bool{"m0007": true}},
		} {
			b.Run(mode+"/"+what, func(b *testing.B) {
				for b.Loop() {
					if o := Compare(Simulate(carved, carved, c, failed)); o.Empty() {
						b.Fatal("nothing differs")
					}
				}
			})
		}
		b.Run(mode+"/each machine, one of them", func(b *testing.B) {
			_, was := Simulate(carved, carved, c, Failures{})
			for b.Loop() {
				if o := Compare(was, was.With(Failures{Machines: map[string]bool{"m0007": true}})); o.Empty() {
					b.Fatal("nothing differs")
				}
			}
		})
	}
}
