package routing

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
)

func addrs(ss ...string) (out []netip.Addr) {
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func prefixes(ss ...string) (out []netip.Prefix) {
	for _, s := range ss {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// view is that of w1 in a rack with two subnets, seen with w2 of the same and w3
// of the other.
func view(mode inventory.Mode) View {
	return View{
		Mode:    mode,
		Cluster: prefixes("10.244.0.0/16", "fd00:244::/48"),
		Self:    Node{Name: "w1", Rack: "r1", Addresses: addrs("10.1.0.11", "fd01::11"), PodCIDRs: prefixes("10.244.1.0/24", "fd00:244:0:1::/64")},
		Subnets: prefixes("10.1.0.0/24", "fd01::/64", "10.2.0.0/24", "fd02::/64"),
		Nodes: []*Node{
			{Name: "w3", Rack: "r1", Addresses: addrs("10.2.0.13", "fd02::13"), PodCIDRs: prefixes("10.244.3.0/24", "fd00:244:0:3::/64")},
			{Name: "w2", Rack: "r1", Addresses: addrs("10.1.0.12", "fd01::12"), PodCIDRs: prefixes("10.244.2.0/24", "fd00:244:0:2::/64")},
		},
		Gateways: addrs("10.1.0.2", "10.1.0.1", "fd01::1"),
	}
}

func lines(t Table) (out []string) {
	for _, r := range t.Routes {
		out = append(out, r.String())
	}
	for _, r := range t.Refusals {
		out = append(out, string(r.Reason)+" "+r.Node+" "+r.CIDR.String())
	}
	return out
}

func TestPlan(t *testing.T) {
	tests := []struct {
		name string
		view func() View
		want []string
	}{
		{"without a pod network there are no pod routes", func() View { return view(inventory.ModeNone) }, nil},
		{"direct reaches nodes of the same subnet and refuses the others", func() View { return view(inventory.ModeDirect) }, []string{
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
			"NodeOfOtherSubnet w3 10.244.3.0/24",
			"NodeOfOtherSubnet w3 fd00:244:0:3::/64",
		}},
		{"fabric sends the rest of the pod network to all routers of the family", func() View { return view(inventory.ModeFabric) }, []string{
			"10.244.0.0/16 nexthop via 10.1.0.1 nexthop via 10.1.0.2",
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"fd00:244::/48 via fd01::1",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
		}},
		{"fabric sends both families to a router that a link-local address is known of", func() View {
			v := view(inventory.ModeFabric)
			v.Gateways = addrs("fe80::1%up0", "fe80::1%up1")
			return v
		}, []string{
			"10.244.0.0/16 nexthop via inet6 fe80::1 dev up0 nexthop via inet6 fe80::1 dev up1",
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"fd00:244::/48 nexthop via fe80::1 dev up0 nexthop via fe80::1 dev up1",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
		}},
		{"fabric takes such a router only where none has an address of the family", func() View {
			v := view(inventory.ModeFabric)
			v.Gateways = addrs("10.1.0.1", "fe80::1%up1")
			return v
		}, []string{
			"10.244.0.0/16 via 10.1.0.1",
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"fd00:244::/48 via fe80::1 dev up1",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
		}},
		{"overlay tunnels to nodes of other subnets only", func() View { return view(inventory.ModeOverlay) }, []string{
			"unreachable 10.244.0.0/16",
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"10.244.3.0/24 via 10.244.3.0 dev plinth-vxlan onlink",
			"unreachable fd00:244::/48",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
			"fd00:244:0:3::/64 via fe80::72:aff:fe02:d dev plinth-vxlan onlink",
		}},
		{"without subnets the rack decides", func() View {
			v := view(inventory.ModeDirect)
			v.Subnets = nil
			v.Nodes[1].Rack = "r2"
			return v
		}, []string{
			"unreachable 10.244.1.0/24",
			"10.244.3.0/24 via 10.2.0.13",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:3::/64 via fd02::13",
			"NodeOfOtherSubnet w2 10.244.2.0/24",
			"NodeOfOtherSubnet w2 fd00:244:0:2::/64",
		}},
		{"a family without subnets follows the other family's", func() View {
			v := view(inventory.ModeDirect)
			v.Subnets = prefixes("10.1.0.0/24", "10.2.0.0/24")
			v.Nodes = v.Nodes[1:]
			return v
		}, []string{
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"unreachable fd00:244:0:1::/64",
			"fd00:244:0:2::/64 via fd01::12",
		}},
		{"a node with one family is routed in that family", func() View {
			v := view(inventory.ModeDirect)
			v.Subnets = nil
			v.Nodes = v.Nodes[1:]
			v.Nodes[0].Addresses = addrs("10.1.0.12")
			return v
		}, []string{
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"unreachable fd00:244:0:1::/64",
			"NodeWithoutAddress w2 fd00:244:0:2::/64",
		}},
		{"a node without an address of a family that the rack has a subnet of says so", func() View {
			v := view(inventory.ModeFabric)
			v.Nodes = v.Nodes[1:]
			v.Nodes[0].Addresses = addrs("10.1.0.12")
			return v
		}, []string{
			"10.244.0.0/16 nexthop via 10.1.0.1 nexthop via 10.1.0.2",
			"unreachable 10.244.1.0/24",
			"10.244.2.0/24 via 10.1.0.12",
			"fd00:244::/48 via fd01::1",
			"unreachable fd00:244:0:1::/64",
			"NodeWithoutAddress w2 fd00:244:0:2::/64",
		}},
		{"of two nodes that claim a CIDR the older keeps it", func() View {
			v := view(inventory.ModeDirect)
			v.Nodes = []*Node{
				{Name: "a", Rack: "r1", Addresses: addrs("10.1.0.21"), PodCIDRs: prefixes("10.244.7.0/24"), Created: time.Unix(200, 0)},
				{Name: "b", Rack: "r1", Addresses: addrs("10.1.0.22"), PodCIDRs: prefixes("10.244.0.0/20"), Created: time.Unix(300, 0)},
				{Name: "c", Rack: "r1", Addresses: addrs("10.1.0.23"), PodCIDRs: prefixes("10.244.7.0/24"), Created: time.Unix(100, 0)},
			}
			v.Self.PodCIDRs = nil
			return v
		}, []string{
			"10.244.7.0/24 via 10.1.0.23",
			"PodCIDRInUse a 10.244.7.0/24",
			"PodCIDRInUse b 10.244.0.0/20",
		}},
		{"a CIDR outside of the pod network is refused", func() View {
			v := view(inventory.ModeDirect)
			v.Self.PodCIDRs, v.Nodes = nil, v.Nodes[1:]
			v.Nodes[0].PodCIDRs = prefixes("0.0.0.0/0", "192.0.2.0/24")
			v.Declared = map[string][]netip.Prefix{"w2": prefixes("192.0.2.0/24")}
			return v
		}, []string{
			"192.0.2.0/24 via 10.1.0.12",
			"PodCIDROutsideNetwork w2 0.0.0.0/0",
		}},
		{"a CIDR of a machine that is called otherwise than its Node", func() View {
			v := view(inventory.ModeDirect)
			v.Self.PodCIDRs, v.Nodes = nil, v.Nodes[1:]
			v.Nodes[0].PodCIDRs, v.Nodes[0].ProviderID = prefixes("192.0.2.0/24"), "plinth://SN-2"
			v.Declared = DeclaredIn(&inventory.Inventory{Racks: []inventory.Rack{{Machines: []inventory.Machine{{Name: "renamed", ID: "SN-2", PodCIDRs: prefixes("192.0.2.0/24")}}}}})
			return v
		}, []string{"192.0.2.0/24 via 10.1.0.12"}},
		{"a node that holds the whole pod network sends none of it away", func() View {
			v := view(inventory.ModeFabric)
			v.Cluster, v.Nodes = prefixes("10.244.0.0/16"), nil
			v.Self.PodCIDRs = prefixes("10.244.0.0/16")
			return v
		}, []string{"unreachable 10.244.0.0/16"}},
		{"fabric without a router says so", func() View {
			v := view(inventory.ModeFabric)
			v.Gateways, v.Nodes, v.Self.PodCIDRs = addrs("fd01::1"), nil, nil
			return v
		}, []string{"fd00:244::/48 via fd01::1", "NoGateway  10.244.0.0/16"}},
		{"addresses of pools are unreachable for others in every mode", func() View {
			v := view(inventory.ModeNone)
			v.Pools = prefixes("203.0.113.0/25", "2001:db8::/112")
			return v
		}, []string{
			"unreachable 203.0.113.0/25 for forwarded packets",
			"unreachable 2001:db8::/112 for forwarded packets",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, lines(Plan(tt.view()))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestPlanOfTheTunnelNamesEachPeerOnce(t *testing.T) {
	got := Plan(view(inventory.ModeOverlay)).Tunnel
	mac := MAC{0x02, 0x72, 10, 2, 0, 13}
	want := Tunnel{
		Local: netip.MustParseAddr("10.1.0.11"),
		MAC:   MAC{0x02, 0x72, 10, 1, 0, 11},
		Inner: addrs("10.244.1.0", "fd00:244:0:1::", "fe80::72:aff:fe01:b"),
		Peers: []Peer{
			{Inner: netip.MustParseAddr("10.244.3.0"), MAC: mac, Outer: netip.MustParseAddr("10.2.0.13")},
			{Inner: netip.MustParseAddr("fd00:244:0:3::"), MAC: mac, Outer: netip.MustParseAddr("10.2.0.13")},
		},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestARouterThatIsAllThereIsGetsTrafficThoughItWasLost(t *testing.T) {
	lost := map[netip.Addr]bool{}
	for _, a := range addrs("10.0.0.1", "fd00::1") {
		lost[a] = true
	}
	if got, want := fmt.Sprint(gateways(addrs("10.0.0.1", "10.0.0.2", "fd00::1"), lost)), "[10.0.0.2 fd00::1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Of a pool over a LAN, as of IPv6, blocks around its machines are left out where each machine by itself would take 64 routes.
func TestABlockAroundEachNodeIsLeftOutWhereThereAreMany(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		coarse bool
		want   int // routes
	}{{0, false, 1}, {1, false, 64}, {8, false, 8 * 61}, {9, true, 0}, {500, true, 0}} {
		v := View{Pools: prefixes("fd01::/64")}
		for i := range c.nodes { // far from each other
			b := netip.MustParseAddr("fd01::").As16()
			b[8], b[9], b[15] = byte(i<<5), byte(i>>3), 1
			v.Taken = append(v.Taken, netip.PrefixFrom(netip.AddrFrom16(b), 128))
		}
		got := Plan(v)
		if isCoarse := len(got.Coarse) > 0; isCoarse != c.coarse || len(got.Routes) > mostAnswers || len(got.Routes) == 0 || !c.coarse && len(got.Routes) != c.want {
			t.Errorf("%d Nodes: %d routes, coarse %v; want %d, %t", c.nodes, len(got.Routes), got.Coarse, c.want, c.coarse)
		}
	}
}
