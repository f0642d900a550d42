package ipam

import (
	"fmt"
	"math/rand"
	"net/netip"
	"plinth.dev/plinth/lb"
	"testing"
	"time"
)

// filled is a Ledger with one pool of that prefix, n addresses of which are held:
// the lowest, or any.
func filled(b *testing.B, prefix string, n int, scattered bool) *Ledger {
	l := ledgerOf(b, fmt.Sprintf(`
    - {name: other, addresses: [203.0.113.0/24], namespaces: [prod], priority: -1}
    - {name: a, addresses: [%q]}
`, prefix))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if scattered {
		order = rand.New(rand.NewSource(1)).Perm(1 << 16)[:n]
	}
	base := netip.MustParsePrefix(prefix).Addr().As16()
	for _, o := range order {
		a := base
		a[14], a[15] = byte(o>>8), byte(o)
		key := lb.ServiceKey{Namespace: "d", Name: fmt.Sprintf("s%d", o)}
		l.Hold(netip.AddrFrom16(a).Unmap(), "a", Holder{Service: key, Sharing: key.Name, Ports: []Port{{"TCP", 80}}})
	}
	return l
}

func BenchmarkAllocate(b *testing.B) {
	for _, pool := range []struct{ name, prefix, families string }{
		{"v4-16", "10.0.0.0/16", "4"}, {"v6-64", "2001:db8::/64", "6"},
	} {
		for _, n := range []int{0, 3000, 1 << 15, 1<<16 - 2} {
			for _, scattered := range []bool{false, true} {
				l := filled(b, pool.prefix, n, scattered)
				r := service("d/new", pool.families)
				r.Sharing = "another"
				b.Run(fmt.Sprintf("decide/%s/held=%d/scattered=%v", pool.name, n, scattered), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if d := Allocate(l, r, noon); d.Refused {
							b.Fatal(brief(d))
						}
					}
				})
				b.Run(fmt.Sprintf("decide-hold-release/%s/held=%d/scattered=%v", pool.name, n, scattered), func(b *testing.B) {
					b.ReportAllocs()
					now := noon
					for b.Loop() {
						now = now.Add(time.Second)
						d := Allocate(l, r, now)
						l.Hold(d.VIPs[0].Addr, d.VIPs[0].Pool, r.Holder)
						l.Release(d.VIPs[0].Addr, r.Service, now)
					}
				})
			}
		}
	}
}

func BenchmarkAllocateRefused(b *testing.B) {
	l := filled(b, "10.0.0.0/16", 1<<16, false)
	r := service("d/new", "4")
	b.ReportAllocs()
	for b.Loop() {
		if d := Allocate(l, r, noon); !d.Refused {
			b.Fatal(brief(d))
		}
	}
}

// BenchmarkAllocateShares decides beside 3,000 Services of one key: all on one port, all
// on a port of their own besides, all with backends of their own, all in a pool that
// drains; and beside one more that can be shared with.
func BenchmarkAllocateShares(b *testing.B) {
	const pools = `
    - {name: a, addresses: [10.0.0.0/16]}
    - {name: b, addresses: [10.1.0.0/16], state: draining}
`
	for _, bm := range []struct {
		name, base, backends, want string
		ports                      []uint16
		more                       bool
	}{
		{"one-port", "10.0.0.0", "", "10.0.11.184", []uint16{80}, false},
		{"one-port-and-another", "10.0.0.0", "", "10.0.11.184", []uint16{80, 443}, true},
		{"one-port-but-for-the-last", "10.0.0.0", "", "10.0.11.184", []uint16{80}, true},
		{"other-backends", "10.0.0.0", "app=%d", "10.0.11.184", []uint16{443}, false},
		{"draining", "10.1.0.0", "", "10.0.0.0", []uint16{443}, false},
	} {
		b.Run(bm.name, func(b *testing.B) {
			l := ledgerOf(b, pools)
			a := netip.MustParseAddr(bm.base)
			for i := range 3000 {
				h := Holder{Service: lb.ServiceKey{Namespace: "d", Name: fmt.Sprint("s", i)}, Sharing: "k", Ports: []Port{{"TCP", 80}, {"TCP", uint16(1000 + i)}}}
				if bm.backends != "" {
					h.Backends = fmt.Sprintf(bm.backends, i)
				}
				l.Hold(a, "", h)
				a = a.Next()
			}
			if bm.more {
				l.Hold(a, "a", Holder{Service: lb.ServiceKey{Namespace: "d", Name: "more"}, Sharing: "k", Ports: []Port{{"TCP", 25}}})
			}
			r := service("d/new", "4")
			r.Sharing, r.Ports = "k", nil
			for _, p := range bm.ports {
				r.Ports = append(r.Ports, Port{"TCP", p})
			}
			want := netip.MustParseAddr(bm.want)
			b.ReportAllocs()
			for b.Loop() {
				if d := Allocate(l, r, noon); d.Refused || d.VIPs[0].Addr != want {
					b.Fatal(brief(d))
				}
			}
		})
	}
}

// BenchmarkGive is a decision and its entry, for ever new Services, as fast as a pool fills.
func BenchmarkGive(b *testing.B) {
	for _, scattered := range []bool{false, true} {
		b.Run(fmt.Sprintf("scattered=%v", scattered), func(b *testing.B) {
			l := filled(b, "2001:db8::/64", 1<<15, scattered)
			names := make([]string, b.N)
			for i := range names {
				names[i] = fmt.Sprint("new", i)
			}
			r := service("d/new", "6")
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r.Service.Name = names[i]
				d := Allocate(l, r, noon)
				l.Hold(d.VIPs[0].Addr, d.VIPs[0].Pool, r.Holder)
			}
		})
	}
}

func BenchmarkAllocateDualStack(b *testing.B) {
	l := ledgerOf(b, `    - {name: a, addresses: [10.0.0.0/16, "2001:db8::/64"]}`)
	r := service("d/new", "46")
	b.ReportAllocs()
	for b.Loop() {
		Allocate(l, r, noon)
	}
}
