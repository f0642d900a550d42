package plan

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/routing"
)

// TestBothEndsOfATunnelAreWhereTheOtherSendsTo is the law that the machines' tunnels meet,
// whichever of its addresses a kubelet was told to use.
func TestBothEndsOfATunnelAreWhereTheOtherSendsTo(t *testing.T) {
	inv, problems := document.Load(document.Document{Source: "x.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  podNetwork: {mode: overlay, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r1, subnets: [10.10.1.0/24, 10.20.1.0/24, "fd01::/64", "fd09::/64"], machines: [{name: w1, addresses: [10.10.1.12, 10.20.1.12, "fd01::12", "fd09::12"]}]}
    - {name: r2, subnets: [10.10.2.0/24, 10.20.2.0/24, "fd02::/64", "fd0a::/64"], machines: [{name: w2, addresses: [10.10.2.12, 10.20.2.12, "fd02::12", "fd0a::12"]}]}
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	cidrs := map[string]netip.Prefix{"w1": netip.MustParsePrefix("10.244.1.0/24"), "w2": netip.MustParsePrefix("10.244.2.0/24")}
	rapid.Check(t, func(t *rapid.T) {
		nodes := map[string]routing.Node{}
		for name, cidr := range cidrs {
			m, ok := inv.Machine(name)
			if !ok {
				t.Fatal("no machine")
			}
			n := routing.Node{Name: name, Rack: m.Rack, PodCIDRs: []netip.Prefix{cidr}}
			for _, a := range rapid.Permutation(m.Addresses).Draw(t, name) {
				if rapid.Bool().Draw(t, a.String()) {
					n.Addresses = append(n.Addresses, a)
				}
			}
			nodes[name] = n
		}
		tunnel := func(name, other string) routing.Tunnel {
			m, _ := inv.Machine(name)
			o := nodes[other]
			in := Inputs{Inventory: inv, Self: Node{Node: nodes[name], Identity: inventory.NodeIdentity{Name: name}}, Nodes: []*routing.Node{&o}}
			return routing.Plan(RoutingView(in, m, inventory.ModeOverlay, nil)).Tunnel
		}
		w1, w2 := tunnel("w1", "w2"), tunnel("w2", "w1")
		for _, ends := range [][2]routing.Tunnel{{w1, w2}, {w2, w1}} {
			for _, p := range ends[0].Peers {
				if p.Outer != ends[1].Local || p.MAC != ends[1].MAC {
					t.Fatalf("one sends to %v, %v; the other is at %v, %v", p.Outer, p.MAC, ends[1].Local, ends[1].MAC)
				}
			}
		}
	})
}
