package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// monitor hears of each IPv4 route that comes into the kernel after it was opened.
type monitor struct {
	socket int
	heard  []netip.Prefix // since the last wait began
}

// openMonitor subscribes in the network namespace of the calling thread. Once it has
// returned no route is missed.
func openMonitor() (*monitor, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	m := &monitor{socket: socket}
	err = errors.Join(
		unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_ROUTE}),
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *monitor) close() error { return unix.Close(m.socket) }

// wait returns once a route to the prefix has come, or with what came instead when the
// limit is over.
func (m *monitor) wait(to netip.Prefix, limit time.Duration) error {
	m.heard = nil
	buffer := make([]byte, 64<<10)
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		n, _, err := unix.Recvfrom(m.socket, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("hearing of routes: %w", err)
		}
		routes, err := newRoutes(buffer[:n])
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r == to {
				return nil
			}
		}
		m.heard = append(m.heard, routes...)
	}
	return fmt.Errorf("no route to %s within %s; routes that came: %v", to, limit, m.heard)
}

// newRoutes reads the destinations of new IPv4 routes from what the kernel sent.
func newRoutes(packet []byte) (list []netip.Prefix, err error) {
	messages, err := syscall.ParseNetlinkMessage(packet)
	if err != nil {
		return nil, err
	}
	for _, message := range messages {
		if message.Header.Type != unix.RTM_NEWROUTE {
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&message)
		if err != nil {
			return nil, err
		}
		for _, a := range attributes {
			if to, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == unix.RTA_DST {
				list = append(list, netip.PrefixFrom(to, int(message.Data[1]))) // rtm_dst_len
			}
		}
	}
	return list, nil
}

func TestTheMonitorHearsARouteThatComesAtOnceAndDoesNotWaitForEver(t *testing.T) {
	const space = "plt-bench-monitor"
	t.Cleanup(func() {
		if err := netns.Delete(space); err != nil {
			t.Error(err)
		}
	})
	if err := netns.Add(space); err != nil {
		t.Fatal(err)
	}
	var m *monitor
	err := netns.Do(space, func() (err error) { m, err = openMonitor(); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := netns.IP(space, "route add 10.255.7.0/24 dev lo", "route add 10.255.8.0/24 dev lo", "route add 10.255.9.0/24 dev lo"); err != nil {
		t.Fatal(err)
	}
	if err := m.wait(netip.MustParsePrefix("10.255.8.0/24"), 10*time.Second); err != nil {
		t.Error(err)
	}
	err = m.wait(netip.MustParsePrefix("10.255.77.0/24"), 500*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no route to 10.255.77.0/24") || !strings.Contains(err.Error(), "10.255.9.0/24") {
		t.Errorf("waiting for a route that never comes: %v, want an error that says what came instead", err)
	}
}
