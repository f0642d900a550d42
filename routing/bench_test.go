package routing

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
)

// large is the view of one of n nodes; direct has them all on one subnet.
func large(mode inventory.Mode, n int) View {
	v := View{
		Mode: mode, Cluster: prefixes("10.0.0.0/8", "fd00:244::/32"), Subnets: prefixes("172.16.0.0/16", "fd01::/64"),
		Gateways: addrs("172.16.0.1", "fd01::1"),
	}
	for i := range n {
		pods, host := netip.MustParseAddr("fd00:244::").As16(), netip.MustParseAddr("fd01::").As16()
		pods[6], pods[7] = byte(i>>8), byte(i)
		host[14], host[15] = byte(i>>8), byte(i+2)
		v.Nodes = append(v.Nodes, &Node{
			Name:      fmt.Sprintf("n%05d", i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), netip.AddrFrom16(host)},
			PodCIDRs:  []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), netip.PrefixFrom(netip.AddrFrom16(pods), 64)},
		})
	}
	v.Self = *v.Nodes[0]
	return v
}

func BenchmarkPlan5000(b *testing.B) {
	for _, mode := range []inventory.Mode{inventory.ModeDirect, inventory.ModeOverlay} {
		b.Run(string(mode), func(b *testing.B) {
			v := large(mode, 5000)
			b.ReportAllocs()
			for b.Loop() {
				Plan(v)
			}
		})
	}
}

// BenchmarkOneMoreAmong5000 is a Node that comes and goes: its plan, and the difference
// to the one before.
func BenchmarkOneMoreAmong5000(b *testing.B) {
	for _, mode := range []inventory.Mode{inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		b.Run(string(mode), func(b *testing.B) {
			without := large(mode, 5000)
			with := without
			one := without.Nodes[2500]
			without.Nodes = slices.Delete(slices.Clone(with.Nodes), 2500, 2501)
			var p Planner
			have := p.Plan(without).Routes
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				v := with
				if i%2 == 1 {
					v = without
				}
				want := p.Plan(v).Routes
				if d := Diff(have, want); len(d.Add)+len(d.Delete) != len(one.PodCIDRs) {
					b.Fatal(d)
				}
				have = want
			}
		})
	}
}

func BenchmarkDiff10000(b *testing.B) {
	routes := Plan(large(inventory.ModeDirect, 5000)).Routes
	other := Plan(large(inventory.ModeDirect, 5000)).Routes
	b.ReportAllocs()
	for b.Loop() {
		Diff(routes, other[1:])
	}
}
