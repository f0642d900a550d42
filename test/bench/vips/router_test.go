package vips

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/lab/netns"
)

const (
	routerSpace = "router"
	machineAddr = "10.1.0.11"
	routerAddr  = "10.1.0.1"
	machineASN  = 65010
	routerASN   = 65101
)

// router is BIRD in a namespace, and what its kernel routes to.
type router struct {
	b   *testing.B
	ctl string

	mu      sync.Mutex
	there   map[netip.Addr]time.Time // since when
	newest  time.Time                // when a route was last new
	deleted int
	news    chan struct{} // has a value when something changed
}

// newRouter starts BIRD, which knows the machine, and follows its kernel's routes.
func newRouter(b *testing.B) *router {
	b.Helper()
	dir := b.TempDir()
	r := &router{b: b, ctl: filepath.Join(dir, "bird.ctl"), there: map[netip.Addr]time.Time{}, news: make(chan struct{}, 1)}
	check(b, netns.Add(routerSpace))
	b.Cleanup(func() { check(b, netns.Delete(routerSpace)) })
	check(b, netns.IP("", "link add up0 type veth peer name down0 netns "+routerSpace, "addr add "+machineAddr+"/24 dev up0", "link set up0 up"))
	check(b, netns.IP(routerSpace, "addr add "+routerAddr+"/24 dev down0", "link set down0 up"))
	r.follow()
	conf := filepath.Join(dir, "bird.conf")
	check(b, os.WriteFile(conf, fmt.Appendf(nil, `router id %s;
protocol device {}
protocol kernel { ipv4 { import none; export all; }; }
protocol bgp w1 { local as %d; neighbor %s as %d; passive on; graceful restart on; ipv4 { import all; export none; }; }
`, routerAddr, routerASN, machineAddr, machineASN), 0o600))
	bird := exec.Command("bird", "-f", "-c", conf, "-s", r.ctl, "-P", filepath.Join(dir, "bird.pid"))
	check(b, netns.Start(routerSpace, bird))
	b.Cleanup(func() { _ = bird.Process.Kill(); _ = bird.Wait() })
	return r
}

func (r *router) ask(question string) string {
	out, _ := exec.Command("birdc", "-s", r.ctl, question).CombinedOutput()
	return string(out)
}

// follow opens a socket on which the router's kernel tells of its routes, and reads
// it until the benchmark ends.
func (r *router) follow() {
	fd := -1
	check(r.b, netns.Do(routerSpace, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		return err
	}))
	check(r.b, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	check(r.b, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_ROUTE}))
	check(r.b, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	stop, done := make(chan struct{}), make(chan struct{})
	r.b.Cleanup(func() { close(stop); <-done; _ = unix.Close(fd) })
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			now := time.Now()
			select {
			case <-stop:
				return
			default:
			}
			if err == nil {
				r.hear(buf[:n], now)
			} else if err != unix.EAGAIN && err != unix.EINTR {
				r.b.Errorf("the router's kernel: %v", err)
				return
			}
		}
	}()
}

// hear takes in what the kernel says about host routes.
func (r *router) hear(data []byte, now time.Time) {
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		r.b.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE || m.Data[1] != 32 || m.Data[4] != unix.RT_TABLE_MAIN {
			continue
		}
		a, ok := destination(&m)
		switch {
		case !ok:
		case m.Header.Type == unix.RTM_DELROUTE:
			delete(r.there, a)
			r.deleted++
		case r.there[a].IsZero():
			r.there[a], r.newest = now, now
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func destination(m *syscall.NetlinkMessage) (netip.Addr, bool) {
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.RTA_DST && len(a.Value) == 4 {
			return netip.AddrFrom4([4]byte(a.Value)), true
		}
	}
	return netip.Addr{}, false
}

// await waits until ok, which sees the routes, and returns what ok returned.
func (r *router) await(limit time.Duration, what string, ok func(there map[netip.Addr]time.Time) bool) {
	r.b.Helper()
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		r.mu.Lock()
		good, n := ok(r.there), len(r.there)
		r.mu.Unlock()
		if good {
			return
		}
		select {
		case <-r.news:
		case <-over.C:
			r.b.Fatalf("not within %s: %s; the router's kernel has %d routes\n%s", limit, what, n, r.ask("show protocols all w1"))
		}
	}
}

// holds waits until the router has that many routes.
func (r *router) holds(limit time.Duration, n int) {
	r.b.Helper()
	r.await(limit, fmt.Sprintf("the router has %d routes", n), func(there map[netip.Addr]time.Time) bool { return len(there) == n })
}

// lost is how many routes the router's kernel has lost so far.
func (r *router) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted
}

// established waits until the session is up and the router has been told all: until then
// it keeps what it had from before.
func (r *router) established() {
	r.b.Helper()
	apiserver.Eventually(r.b, 30*time.Second, "the session is up", func(context.Context) error {
		if out := r.ask("show protocols all w1"); !strings.Contains(out, "Established") || strings.Contains(out, "graceful restart active") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
