//go:build privileged

package kernel

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

const many = 10_000

// manyRoutes are routes to n pod CIDRs of one family, via the given host of the subnet.
func manyRoutes(ipv4 bool, n, host int) []routing.Route {
	out := make([]routing.Route, 0, n)
	for i := range n {
		r := routing.Route{Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + i>>8), byte(i), 0}), 24), Via: routing.Via(netip.AddrFrom4([4]byte{10, 1, 0, byte(host)}))}
		if !ipv4 {
			dst, via := netip.MustParseAddr("fd00:244::").As16(), netip.MustParseAddr("fd01::").As16()
			dst[6], dst[7], via[15] = byte(i>>8), byte(i), byte(host)
			r = routing.Route{Dst: netip.PrefixFrom(netip.AddrFrom16(dst), 64), Via: routing.Via(netip.AddrFrom16(via))}
		}
		out = append(out, r)
	}
	return sorted(out...)
}

func families(b *testing.B, f func(b *testing.B, ipv4 bool)) {
	for _, ipv4 := range []bool{true, false} {
		b.Run(map[bool]string{true: "IPv4", false: "IPv6"}[ipv4], func(b *testing.B) { f(b, ipv4) })
	}
}

func rate(b *testing.B, n int) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "routes/s")
}

func mustSet(b *testing.B, tab *Table, want []routing.Route) {
	if s, err := tab.Set(context.Background(), want); err != nil || s.Have != len(want) {
		b.Fatal(s.Have, err)
	}
}

func BenchmarkAdd10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab, routes := table(b), manyRoutes(ipv4, many, 12)
		for range b.N {
			mustSet(b, tab, routes)
			b.StopTimer()
			mustSet(b, tab, nil)
			b.StartTimer()
		}
		rate(b, many)
	})
}

func BenchmarkReplace10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab := table(b)
		variants := [][]routing.Route{manyRoutes(ipv4, many, 12), manyRoutes(ipv4, many, 13)}
		mustSet(b, tab, variants[1])
		b.ResetTimer()
		for i := range b.N {
			mustSet(b, tab, variants[i%2])
		}
		rate(b, many)
	})
}

// BenchmarkIPBatchAdd10000 and the next are what the two before are held against.
func BenchmarkIPBatchAdd10000(b *testing.B) { ipBatch(b, "add") }

func BenchmarkIPBatchReplace10000(b *testing.B) { ipBatch(b, "replace") }

func ipBatch(b *testing.B, verb string) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		flag := map[bool]string{true: "-4", false: "-6"}[ipv4]
		var files []string
		for host := 12; host < 14; host++ {
			var lines bytes.Buffer
			for _, r := range manyRoutes(ipv4, many, host) {
				fmt.Fprintf(&lines, "route %s %v proto 114 metric 114\n", verb, r)
			}
			files = append(files, filepath.Join(b.TempDir(), fmt.Sprint(host)))
			if err := os.WriteFile(files[len(files)-1], lines.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		if verb == "replace" {
			ip(b, flag+" -batch "+files[1])
		}
		b.ResetTimer()
		for i := range b.N {
			ip(b, flag+" -batch "+files[i%2])
			if verb == "add" {
				b.StopTimer()
				ip(b, flag+" route flush proto 114")
				b.StartTimer()
			}
		}
		rate(b, many)
		b.StopTimer()
		_ = exec.Command("ip", flag, "route", "flush", "proto", "114").Run()
	})
}

// BenchmarkNothingToChange10000 is a full resync; the next benchmark is the dump
// alone, as iproute2 makes it in C and the netlink package in Go.
func BenchmarkNothingToChange10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab, routes := table(b), manyRoutes(ipv4, many, 12)
		mustSet(b, tab, routes)
		b.ResetTimer()
		for range b.N {
			tab.Doubt()
			if s, err := tab.Set(context.Background(), routes); err != nil || s.Changed != 0 {
				b.Fatal(s.Changed, err)
			}
		}
	})
}

// BenchmarkDump10000 reads the same table and does nothing with it.
func BenchmarkDump10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab, routes := table(b), manyRoutes(ipv4, many, 12)
		mustSet(b, tab, routes)
		b.ResetTimer()
		for range b.N {
			for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
				req := batch{first: tab.conn.nextSeq(1)}
				req.list(family, unix.RT_TABLE_MAIN, DefaultProtocol)
				n := 0
				if err := tab.conn.dump(req.buf, req.first, func(unix.NlMsghdr, []byte) { n++ }); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkNetlinkPackageDump10000 is the same by the netlink package.
func BenchmarkNetlinkPackageDump10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		mustSet(b, table(b), manyRoutes(ipv4, many, 12))
		family := map[bool]int{true: unix.AF_INET, false: unix.AF_INET6}[ipv4]
		b.ResetTimer()
		for range b.N {
			all, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: DefaultProtocol}, netlink.RT_FILTER_PROTOCOL)
			if err != nil || len(all) != many {
				b.Fatal(len(all), err)
			}
		}
	})
}

// BenchmarkOneMoreAmong10000 adds and removes one route of many.
func BenchmarkOneMoreAmong10000(b *testing.B) {
	uplink(b)
	tab, routes := table(b), manyRoutes(true, many, 12)
	mustSet(b, tab, routes[1:])
	b.ResetTimer()
	for i := range b.N {
		mustSet(b, tab, routes[(i+1)%2:])
	}
}

// BenchmarkRepair is the time until what a foreign hand deleted is back, from its
// last word on.
func BenchmarkRepair(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			uplink(b)
			tab, routes := table(b), manyRoutes(true, many, 12)
			mustSet(b, tab, routes)
			doubt, err := tab.Watch(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			var lines bytes.Buffer
			for _, r := range routes[:n] {
				fmt.Fprintf(&lines, "route del %v proto 114 metric 114\n", r)
			}
			file := filepath.Join(b.TempDir(), "del")
			if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				ip(b, "-force -batch "+file)
				b.StartTimer()
				for restored := 0; restored < n; {
					select {
					case <-doubt:
					case <-time.After(5 * time.Second):
						b.Fatal("no event")
					}
					tab.Doubt()
					s, err := tab.Set(context.Background(), routes)
					if err != nil {
						b.Fatal(err)
					}
					restored += s.Changed
				}
			}
		})
	}
}
