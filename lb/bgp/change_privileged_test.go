//go:build privileged && timing

package bgp

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plinth.dev/plinth/lb/advertise"
)

// follow hands out what the router's kernel says about its routes, as it says it.
func (r *router) follow() <-chan string {
	r.t.Helper()
	c := exec.Command("ip", "-n", r.ns, "monitor", "route")
	pipe, err := c.StdoutPipe()
	must(r.t, err)
	must(r.t, c.Start())
	lines := make(chan string, 100_000)
	var listening atomic.Bool
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			listening.Store(true)
			lines <- s.Text()
		}
	}()
	r.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	r.pokeUntil(listening.Load)
	return lines
}

// BenchmarkOneOfMany is the time from a change of one route among many until the
// router's kernel has it ("ms/route"), and how much of it Set takes ("ms/set"): medians.
// Once the route is one more, once another one goes at the same moment.
func BenchmarkOneOfMany(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		for _, kind := range []string{"one more", "one for another"} {
			b.Run(fmt.Sprintf("%s among %d", kind, n), func(b *testing.B) { oneOfMany(b, n, kind == "one for another") })
		}
	}
}

func oneOfMany(b *testing.B, n int, another bool) {
	r := newRouter(b).bird(neighbour{})
	s := NewSpeaker(Options{}) // a benchmark that logs prints nothing else
	b.Cleanup(func() { must(b, s.Leave(context.Background())) })
	next := netip.MustParseAddr("198.18.0.1")
	draw := func() []advertise.Advertisement {
		next = next.Next()
		return []advertise.Advertisement{{Prefix: netip.PrefixFrom(next, 32)}}
	}
	var ads []advertise.Advertisement
	for range n {
		ads = append(ads, draw()...)
	}
	c := config(announcing(r.session4(), ads...))
	must(b, s.Set(b.Context(), c))
	isUp(b, s, 10*time.Second)
	r.count(10*time.Second, n)
	updates := r.follow()
	var last, gone []advertise.Advertisement
	var setting, all []time.Duration
	for b.Loop() {
		now := draw()
		if another {
			gone = last
		}
		last = now
		c.Sessions[0].Advertisements = c.Sessions[0].Advertisements.Edit(gone, now)
		begun := time.Now()
		must(b, s.Set(b.Context(), c))
		setting = append(setting, time.Since(begun))
		for line := range updates {
			if strings.HasPrefix(line, now[0].Prefix.Addr().String()+" ") {
				break
			}
		}
		all = append(all, time.Since(begun))
		time.Sleep(2 * time.Millisecond) // nothing of one change is left to do when the next comes
	}
	median(b, "ms/set", setting)
	median(b, "ms/route", all)
}
