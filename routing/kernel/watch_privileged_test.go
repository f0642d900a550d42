//go:build privileged

package kernel

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// concerned counts the events of some types that come of what is done and that the table's
// watcher takes for its own. It hears them on a socket of its own, and knows by a route of
// nobody's that it has heard all. A link that has just come up has events of other types
// whenever the kernel likes.
func concerned(t testing.TB, tab *Table, types []uint16, do func()) (n int) {
	t.Helper()
	c, err := dial(watched...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.patience(answerTimeout); err != nil {
		t.Fatal(err)
	}
	w, last := tab.watcher(), netip.MustParseAddr("192.0.2.99")
	do()
	ip(t, "route add blackhole 192.0.2.99/32 proto 99")
	ip(t, "route del blackhole 192.0.2.99/32 proto 99")
	for done := false; !done; {
		err := c.receive(func(h unix.NlMsghdr, body []byte) error {
			if slices.Contains(types, h.Type) && h.Pid != w.port && w.concerns(h, body) {
				n++
			}
			if h.Type != unix.RTM_DELROUTE {
				return nil
			}
			for kind, value := range attributes(body[unix.SizeofRtMsg:]) {
				a, ok := netip.AddrFromSlice(value)
				done = done || kind == unix.RTA_DST && ok && a == last
			}
			return nil
		})
		if err != nil {
			t.Fatal("the last event did not come:", err)
		}
	}
	return n
}

func TestARouteOfAnotherProgramsIsNoEventUnlessItTakesThePlaceOfOurs(t *testing.T) {
	uplink(t)
	tab := table(t)
	set(t, tab, sorted(append(mixed(), of(routing.Unreachable, "0.0.0.0/0"), of(routing.Unreachable, "::/0"))...))
	for _, tt := range []struct {
		what  string
		args  []string
		event bool
	}{
		{"another destination", []string{"route replace 20.0.0.1/32 via 10.1.0.1 proto bird metric 32", "route replace 20.0.0.1/32 via 10.1.0.2 proto bird metric 32"}, false},
		{"another destination of IPv6", []string{"-6 route replace 2001:db8:7::/64 via fd01::1 proto bird metric 32", "-6 route replace 2001:db8:7::/64 via fd01::2 proto bird metric 32"}, false},
		{"another length", []string{"route replace 10.244.2.0/25 via 10.1.0.1 proto bird", "route replace 10.244.2.0/25 via 10.1.0.2 proto bird"}, false},
		{"it is deleted", []string{"route del 20.0.0.1/32", "-6 route del 2001:db8:7::/64", "route del 10.244.2.0/25"}, false},
		{"our destination", []string{"route replace 10.244.2.0/24 via 10.1.0.77 proto bird metric 114"}, true},
		{"our destination of IPv6", []string{"-6 route replace fd00:244:0:2::/64 via fd01::77 proto bird metric 114"}, true},
		{"the default route, which is ours here", []string{"route replace default via 10.1.0.77 proto bird metric 1000114"}, true},
		{"that of IPv6", []string{"-6 route replace default via fd01::77 proto bird metric 1000114"}, true},
		{"ours is deleted", []string{"route del 10.244.0.0/16 proto 114"}, true},
	} {
		n := concerned(t, tab, []uint16{unix.RTM_NEWROUTE, unix.RTM_DELROUTE}, func() {
			for _, args := range tt.args {
				ip(t, args)
			}
		})
		if n > 0 != tt.event {
			t.Errorf("%s: %d events are taken for ours", tt.what, n)
		}
	}
	tab.Invalidate()
	for _, args := range []string{"route del 10.244.2.0/24 proto bird", "-6 route del fd00:244:0:2::/64 proto bird", "route del default proto bird", "-6 route del default proto bird"} {
		ip(t, args)
	}
}

// endOfATunnel is one end, whose only peer is in another subnet.
func endOfATunnel() routing.Tunnel {
	return routing.Tunnel{
		VXLAN: inventory.DefaultVXLAN,
		Local: netip.MustParseAddr("10.1.0.11"), MAC: routing.MAC{2, 0x72, 10, 1, 0, 11}, Inner: []netip.Addr{netip.MustParseAddr("10.244.1.0")},
		Peers: []routing.Peer{{Inner: netip.MustParseAddr("10.244.3.0"), MAC: routing.MAC{2, 0x72, 10, 2, 0, 13}, Outer: netip.MustParseAddr("10.2.0.13")}},
	}
}

func mustSetTunnel(t testing.TB, tab *Table, want routing.Tunnel) {
	t.Helper()
	if err := tab.SetTunnel(context.Background(), want); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeOfAnMTUThatTheTunnelNeedsIsAnEvent(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	tab := table(t)
	mustSetTunnel(t, tab, endOfATunnel())
	set(t, tab, nil)
	links := []uint16{unix.RTM_NEWLINK}
	for _, tt := range []struct {
		what, args string
		event      bool
	}{
		{"of a link that the tunnel does not go over", "link set side0 mtu 1400", false},
		{"of the uplink, to what it is", "link set up0 mtu 1500", false},
		{"of the uplink", "link set up0 mtu 1400", true},
		{"of the tunnel", "link set plinth-vxlan mtu 9000", true},
	} {
		if n := concerned(t, tab, links, func() { ip(t, tt.args) }); n > 0 != tt.event {
			t.Errorf("%s: %d events are taken for ours", tt.what, n)
		}
	}
	mend := concerned(t, tab, links, func() {
		tab.Invalidate()
		mustSetTunnel(t, tab, endOfATunnel())
	})
	if mend > 0 {
		t.Errorf("%d events of our own are taken for another's", mend)
	}
	if got := ip(t, "link show plinth-vxlan"); !strings.Contains(got, "mtu 1350") {
		t.Errorf("the tunnel does not follow its uplink: %s", got)
	}
	mustSetTunnel(t, tab, routing.Tunnel{})
	if n := concerned(t, tab, links, func() { ip(t, "link set up0 mtu 1500") }); n > 0 {
		t.Errorf("without a tunnel: %d events are taken for ours", n)
	}
}
