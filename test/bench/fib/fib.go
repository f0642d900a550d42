// Package fib follows the host routes in the kernel of one network namespace, by what the
// kernel itself tells over netlink.
package fib

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// Table is the host routes of a main table that came after it was opened.
type Table struct {
	socket int
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	view    View
	first   map[netip.Addr]time.Time // when it came first since Forget
	deleted int
	failed  error         // why nothing is followed any more
	news    chan struct{} // has a value when something changed
}

// View is what is there.
type View struct {
	There  map[netip.Addr]time.Time // since when
	Newest time.Time                // when a route last came that was not there
}

// Follow opens a table. Once it has returned no route is missed.
func Follow(namespace string) (*Table, error) {
	t := &Table{
		socket: -1, stop: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1),
		view: View{There: map[netip.Addr]time.Time{}}, first: map[netip.Addr]time.Time{},
	}
	err := netns.Do(namespace, func() (err error) {
		t.socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("following the routes of %s: %w", namespace, err)
	}
	err = errors.Join(
		unix.SetsockoptInt(t.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.Bind(t.socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE}),
		unix.SetsockoptTimeval(t.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("following the routes of %s: %w", namespace, err), unix.Close(t.socket))
	}
	go t.run()
	return t, nil
}

// Close ends it.
func (t *Table) Close() error {
	close(t.stop)
	<-t.done
	return unix.Close(t.socket)
}

func (t *Table) run() {
	defer close(t.done)
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(t.socket, buffer, 0)
		now := time.Now()
		select {
		case <-t.stop:
			return
		default:
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil {
			err = t.hear(buffer[:n], now)
		}
		if err != nil {
			t.fail(err)
			return
		}
	}
}

func (t *Table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = fmt.Errorf("following routes: %w", err)
	t.tell()
}

func (t *Table) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// hear takes in what the kernel says about host routes.
func (t *Table) hear(data []byte, now time.Time) error {
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range messages {
		a, ok, err := hostRoute(&m)
		switch {
		case err != nil:
			return err
		case !ok:
		case m.Header.Type == unix.RTM_DELROUTE:
			delete(t.view.There, a)
			t.deleted++
		case t.view.There[a].IsZero():
			t.view.There[a], t.view.Newest = now, now
			if t.first[a].IsZero() {
				t.first[a] = now
			}
		}
	}
	t.tell()
	return nil
}

// hostRoute returns the destination of a host route of the main table that came or went.
func hostRoute(m *syscall.NetlinkMessage) (a netip.Addr, ok bool, err error) {
	if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE || m.Data[4] != unix.RT_TABLE_MAIN { // rtm_table
		return a, false, nil
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return a, false, err
	}
	for _, one := range attributes {
		if to, ok := netip.AddrFromSlice(one.Value); ok && one.Attr.Type == unix.RTA_DST && int(m.Data[1]) == to.BitLen() { // rtm_dst_len
			return to, true, nil
		}
	}
	return a, false, nil
}

// Await waits until ok, which sees what is there, and may not keep it.
func (t *Table) Await(limit time.Duration, ok func(View) bool) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		t.mu.Lock()
		good, n, failed := ok(t.view), len(t.view.There), t.failed
		t.mu.Unlock()
		switch {
		case good:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-t.news:
		case <-over.C:
			return fmt.Errorf("not within %s: there are %d host routes", limit, n)
		}
	}
}

// Deleted is how many routes have gone so far.
func (t *Table) Deleted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deleted
}

// First is when a route came first since Forget; zero: it has not.
func (t *Table) First(a netip.Addr) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first[a]
}

// Forget has First tell of what comes from now on.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.first)
}
