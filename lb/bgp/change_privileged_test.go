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

// follow reports the changes of routes of the router's kernel as they happen.
func (r *router) follow() <-chan string {
	r.t.Helper()
	cmd := exec.Command("ip", "-n", r.ns, "monitor", "route")
	pipe, err := cmd.StdoutPipe()
	must(r.t, err)
	must(r.t, cmd.Start())
	lines := make(chan string, 100_000)
	var listening atomic.Bool
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			listening.Store(true)
			lines <- s.Text()
		}
	}()
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
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

// oneOfMany measures changes of one route among so many.
func oneOfMany(b *testing.B, number int, another bool) {
	router := newRouter(b).bird(neighbour{})
	speaker := NewSpeaker(Options{}) // a benchmark that logs prints nothing else
	b.Cleanup(func() { must(b, speaker.Leave(context.Background())) })
	next := netip.MustParseAddr("198.18.0.1")
	draw := func() []advertise.Advertisement {
		next = next.Next()
		return []advertise.Advertisement{{Prefix: netip.PrefixFrom(next, 32)}}
	}
	var ads []advertise.Advertisement
	for range number {
		ads = append(ads, draw()...)
	}
	config := configOf(announcing(router.session4(), ads...))
	must(b, speaker.Set(b.Context(), config))
	isUp(b, speaker, 10*time.Second)
	router.count(10*time.Second, number)
	updates := router.follow()
	var last, gone []advertise.Advertisement
	var setting, all []time.Duration
	for b.Loop() {
		now := draw()
		if another {
			gone = last
		}
		last = now
		config.Sessions[0].Advertisements = config.Sessions[0].Advertisements.Edit(gone, now)
		begun := time.Now()
		must(b, speaker.Set(b.Context(), config))
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
