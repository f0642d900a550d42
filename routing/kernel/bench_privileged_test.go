//go:build privileged

package kernel

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// compared is how long each of several ways took in the same run, one after the other in
// turn: what else the machine does then hits all of them alike.
type compared map[string][]time.Duration

// measure notes how long do took.
func (c compared) measure(name string, do func()) {
	begun := time.Now()
	do()
	c[name] = append(c[name], time.Since(begun))
}

func (c compared) median(name string) time.Duration {
	all := slices.Sorted(slices.Values(c[name]))
	return all[len(all)/2]
}

// ratio reports the median of one way, in ms, and how many times that of another it is:
// the median of the ratios of each turn.
func (c compared) ratio(b *testing.B, name, than string) {
	b.ReportMetric(float64(c.median(name).Microseconds())/1000, name+"-ms")
	b.ReportMetric(float64(c.median(than).Microseconds())/1000, than+"-ms")
	var ratios []float64
	for i, d := range c[name] {
		ratios = append(ratios, float64(d)/float64(c[than][i]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], name+"/"+than)
}

func mustSet(b *testing.B, tab *Table, want []routing.Route) {
	if s, err := tab.Set(context.Background(), want); err != nil || s.Have != len(want) {
		b.Fatal(s.Have, err)
	}
}

// BenchmarkAdd10000 puts ten thousand routes into an empty table, with ip -batch in turn.
func BenchmarkAdd10000(b *testing.B) { againstIPBatch(b, "add") }

// BenchmarkReplace10000 gives ten thousand routes another next hop, with ip -batch in turn.
func BenchmarkReplace10000(b *testing.B) { againstIPBatch(b, "replace") }

func againstIPBatch(b *testing.B, verb string) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab, c, flag := table(b), compared{}, map[bool]string{true: "-4", false: "-6"}[ipv4]
		variants := [][]routing.Route{manyRoutes(ipv4, many, 12), manyRoutes(ipv4, many, 13)}
		file := batchFile(b, verb, variants[1])
		if verb == "replace" {
			mustSet(b, tab, variants[1])
		}
		for b.Loop() {
			c.measure("plinth", func() { mustSet(b, tab, variants[0]) })
			if verb == "add" {
				mustSet(b, tab, nil)
			}
			c.measure("ip-batch", func() { ip(b, flag+" -batch "+file) })
			tab.Invalidate()
			if verb == "add" {
				mustSet(b, tab, nil)
			} else {
				mustSet(b, tab, variants[1])
			}
		}
		c.ratio(b, "plinth", "ip-batch")
		b.ReportMetric(many/c.median("plinth").Seconds(), "routes/s")
	})
}

// batchFile writes what ip -batch is to do.
func batchFile(b *testing.B, verb string, routes []routing.Route) string {
	b.Helper()
	var lines bytes.Buffer
	for _, r := range routes {
		fmt.Fprintf(&lines, "route %s %v proto 114 metric 114\n", verb, r)
	}
	file := filepath.Join(b.TempDir(), "batch")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// BenchmarkNothingToChange10000 is a full resync that finds all in place, with a dump of
// the same tables that does nothing with them in turn.
func BenchmarkNothingToChange10000(b *testing.B) {
	families(b, func(b *testing.B, ipv4 bool) {
		uplink(b)
		tab, c, routes := table(b), compared{}, manyRoutes(ipv4, many, 12)
		mustSet(b, tab, routes)
		for b.Loop() {
			tab.Invalidate()
			c.measure("resync", func() {
				if s, err := tab.Set(context.Background(), routes); err != nil || s.Changed != 0 {
					b.Fatal(s.Changed, err)
				}
			})
			c.measure("dump", func() { dumpOnly(b, tab) })
		}
		c.ratio(b, "resync", "dump")
	})
}

func dumpOnly(b *testing.B, tab *Table) {
	n := 0
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		req := batch{first: tab.conn.nextSeq(1)}
		req.list(family, unix.RT_TABLE_MAIN, DefaultProtocol)
		if err := tab.conn.dump(req.buf, req.first, func(unix.NlMsghdr, []byte) { n++ }); err != nil {
			b.Fatal(err)
		}
	}
	if n != many {
		b.Fatal(n, "routes")
	}
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
			tab, c, routes := table(b), compared{}, manyRoutes(true, many, 12)
			mustSet(b, tab, routes)
			doubt, err := tab.Watch(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			file := batchFile(b, "del", routes[:n])
			for b.Loop() {
				ip(b, "-force -batch "+file)
				c.measure("repair", func() { repair(b, tab, doubt, routes, n) })
			}
			b.ReportMetric(float64(c.median("repair").Microseconds())/1000, "repair-ms")
		})
	}
}

func repair(b *testing.B, tab *Table, doubt <-chan struct{}, routes []routing.Route, n int) {
	for restored := 0; restored < n; {
		select {
		case <-doubt:
		case <-time.After(5 * time.Second):
			b.Fatal("no event")
		}
		tab.Invalidate()
		s, err := tab.Set(context.Background(), routes)
		if err != nil {
			b.Fatal(err)
		}
		restored += s.Changed
	}
}

// BenchmarkForeignReplacements is what another program's changes of its own routes cost
// beside 100,000 of these: how often the tables are read again in a second, at the agent's
// pace, and the share of one CPU that this takes.
func BenchmarkForeignReplacements(b *testing.B) {
	uplink(b)
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "route add 20.%d.%d.%d/32 via 10.1.0.1 proto bird metric 32\n", i/62500, (i/250)%250, i%250+1)
	}
	file := filepath.Join(b.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	ip(b, "-batch "+file)
	tab, want := table(b), mixed()
	mustSet(b, tab, want)
	doubt, err := tab.Watch(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	replaced := make(chan error, 1)
	go func() { replaced <- replaceOften(ctx) }()
	const pace = 20 * time.Millisecond // the agent's
	rereads, spent, began := 0, time.Duration(0), time.Now()
	for b.Loop() {
		for end := time.After(time.Second); end != nil; {
			select {
			case <-end:
				end = nil
			case <-doubt:
				from := time.Now()
				tab.Invalidate()
				mustSet(b, tab, want)
				rereads, spent = rereads+1, spent+time.Since(from)
				<-time.After(pace - time.Since(from))
			}
		}
	}
	took := time.Since(began)
	stop()
	if err := <-replaced; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(rereads)/took.Seconds(), "rereads/s")
	b.ReportMetric(100*spent.Seconds()/took.Seconds(), "cpu-%")
}

// replaceOften gives one foreign route another next hop a hundred times a second.
func replaceOften(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := netlink.RouteReplace(&netlink.Route{Dst: &net.IPNet{IP: net.IPv4(20, 0, 0, 1), Mask: net.CIDRMask(32, 32)},
			Gw: net.IPv4(10, 1, 0, byte(1+i%2)), Protocol: unix.RTPROT_BIRD, Priority: 32})
		if err != nil {
			return err
		}
	}
}
