//go:build privileged && timing

package bgp

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

var resets = flag.Int64("resets", 1000, "how often sessions are lost in TestNothingIsLeftOfASessionThatWasLost")

// restless are routers that end each session once it has lived for so long, until they have
// ended so many.
type restless struct {
	lives                  time.Duration
	until, ended, sessions atomic.Int64
}

// waysToEnd holds the ways in which a router ends a session.
var waysToEnd = []func(net.Conn){
	func(c net.Conn) {
		send(c, gobgp.NewBGPNotificationMessage(gobgp.BGP_ERROR_CEASE, gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET, nil))
	},
	func(c net.Conn) {
		send(c, gobgp.NewBGPNotificationMessage(gobgp.BGP_ERROR_CEASE, gobgp.BGP_ERROR_SUB_OUT_OF_RESOURCES, nil))
	},
	func(net.Conn) {},
	func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
}

// at starts such a router at an address.
func (r *restless) at(t *testing.T, a netip.Addr, end func(net.Conn)) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, 179).String())
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.serve(c, end)
		}
	}()
}

// serve speaks BGP over one connection, and ends it.
func (r *restless) serve(conn net.Conn, end func(net.Conn)) {
	defer conn.Close()
	if !handshake(conn) {
		return
	}
	r.sessions.Add(1)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = io.Copy(io.Discard, conn) }()
	for begin := time.Now(); r.ended.Load() >= r.until.Load() || time.Since(begin) < r.lives; {
		select {
		case <-gone:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.ended.Add(1)
	end(conn)
}

// usage counts the resources of a process.
type usage struct {
	goroutines int
	bytes      uint64
}

// used returns the resources of this process, after a garbage collection.
func used() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc + m.StackInuse}
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d KiB", u.goroutines, u.bytes>>10)
}

// TestNothingIsLeftOfASessionThatWasLost; 10,000 of them take ten minutes: -resets 10000. FRR
// and BIRD beside the routers that end sessions do not notice.
func TestNothingIsLeftOfASessionThatWasLost(t *testing.T) {
	var wrapped restless
	var all []SessionConfig
	for i := range 32 {
		a := netip.AddrFrom4([4]byte{127, 0, 12, byte(i + 1)})
		wrapped.at(t, a, waysToEnd[i%len(waysToEnd)])
		s := sessionTo(a.String())
		s.Local, s.RouterASN, s.LocalASN, s.HoldTime, s.Port = netip.MustParseAddr("127.0.0.1"), routerASN, ourASN, 9*time.Second, 179
		s.Families.IPv6 = false
		all = append(all, plan(s, hundred("203.0.113.%d/32")...))
	}
	honest := map[string]*untouched{}
	for name := range dialects {
		x := newUntouched(t, name)
		honest[name] = x
		all = append(all, plan(x.session4(), hundred("203.0.113.%d/32")...), plan(x.session6(), hundred("2001:db8:113::%x/128")...))
	}
	speaker := NewSpeaker(Options{})
	speaker.undamped = true
	t.Cleanup(func() { must(t, speaker.Leave(context.Background())) })
	must(t, speaker.Set(t.Context(), configOf(all...)))
	after := func(n int64) usage {
		begin := time.Now()
		wrapped.until.Store(n)
		eventually(t, time.Duration(n)*time.Second, fmt.Sprintf("%d sessions were lost", n), func() (bool, string) {
			return wrapped.ended.Load() >= n, fmt.Sprint(wrapped.ended.Load())
		})
		isUp(t, speaker, 30*time.Second)
		changed, last := time.Now(), used()
		eventually(t, 30*time.Second, "the routers' own goroutines end", func() (bool, string) {
			if now := used(); now.goroutines < last.goroutines {
				changed, last = time.Now(), now
			}
			return time.Since(changed) > 3*time.Second, last.String()
		})
		u := used()
		t.Logf("after %d resets: %v; it took %v", wrapped.ended.Load(), u, time.Since(begin))
		return u
	}
	few := after(100)
	counted := map[string]string{}
	for name, x := range honest {
		x.count(15*time.Second, 200)
		x.s, x.lost, x.was = speaker, x.watch(), ""
		x.was = x.story()
		counted[name], _ = x.counted()
	}
	for count := int64(1000); count <= *resets; count *= 10 {
		if now := after(count); now.goroutines > few.goroutines+5 || now.bytes > few.bytes+20<<20 {
			t.Errorf("after 100 resets it has %v, after %d %v", few, count, now)
		}
		for name, x := range honest {
			x.check()
			if now, _ := x.counted(); now != counted[name] {
				t.Errorf("%s noticed %d resets: it counted\n%s\nand now\n%s", name, count, counted[name], now)
			}
		}
	}
}

func TestARouterThatResetsAgainAndAgainIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	var wrapped restless
	wrapped.until.Store(1 << 30)
	a := netip.AddrFrom4([4]byte{127, 0, 13, 1})
	wrapped.at(t, a, waysToEnd[0])
	c := sessionTo(a.String())
	c.Local, c.Port = netip.MustParseAddr("127.0.0.1"), 179
	speaker := newSpeaker(t)
	must(t, speaker.Set(t.Context(), configOf(plan(c, "203.0.113.10/32"))))
	eventually(t, 60*time.Second, "it waits eight seconds", func() (bool, string) {
		st := speaker.State(t.Context())[0]
		return st.Flaps == 4 && st.Phase == "paused" && time.Until(st.HeldUntil) > 7*time.Second, fmt.Sprint(st, st.Flaps, st.Phase)
	})
	st := speaker.State(t.Context())[0]
	if n := wrapped.sessions.Load(); n != 4 || st.Cause != Flapping || !strings.Contains(st.Detail, "RouterShutdown") {
		t.Errorf("%d sessions, %v", n, st)
	}
}
