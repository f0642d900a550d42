//go:build privileged

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/netns"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wait"
)

// TestMain runs the tests again in a network namespace of their own.
func TestMain(m *testing.M) {
	netns.Main(m, func() error { // without detection of duplicates no address turns up later by itself
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)
	})
}

// ip runs one ip command and returns its output.
func ip(t testing.TB, args string) string {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// uplink gives the namespace a link with the subnets 10.1.0.0/24 and fd01::/64.
func uplink(t testing.TB) {
	t.Helper()
	ip(t, "link add up0 type veth peer name up1")
	t.Cleanup(func() { ip(t, "link del up0") })
	for _, args := range []string{
		"addr add 10.1.0.11/24 dev up0", "-6 addr add fd01::11/64 dev up0 nodad",
		"link set lo up", "link set up1 up", "link set up0 up",
	} {
		ip(t, args)
	}
}

func table(t testing.TB) *Table {
	tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
	t.Cleanup(func() {
		if err := tab.Clear(context.Background()); err != nil {
			t.Error(err)
		}
		tab.Close()
	})
	return tab
}

func via(dst string, hops ...string) routing.Route {
	r := routing.Route{Dst: netip.MustParsePrefix(dst)}
	var as []netip.Addr
	for _, h := range hops {
		as = append(as, netip.MustParseAddr(h))
	}
	r.Via = routing.Via(as...)
	return r
}

func of(kind routing.Kind, dst string) routing.Route {
	return routing.Route{Dst: netip.MustParsePrefix(dst), Kind: kind}
}

func sorted(rs ...routing.Route) []routing.Route {
	slices.SortFunc(rs, routing.Route.Compare)
	return rs
}

// mixed is a table with routes of every kind and both families.
func mixed() []routing.Route {
	return sorted(
		via("10.244.2.0/24", "10.1.0.12"), via("10.244.0.0/16", "10.1.0.1", "10.1.0.2"), of(routing.Unreachable, "10.244.1.0/24"),
		via("fd00:244:0:2::/64", "fd01::12"), via("fd00:244::/48", "fd01::1", "fd01::2"), of(routing.Unreachable, "fd00:244:0:1::/64"),
		of(routing.UnreachableForwarded, "203.0.113.0/25"), of(routing.UnreachableForwarded, "2001:db8:113::/112"),
	)
}

func set(t testing.TB, tab *Table, want []routing.Route) State {
	t.Helper()
	s, err := tab.Set(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	if s.Want != len(want) || s.Have != len(want) {
		t.Fatalf("state %+v for %d routes", s, len(want))
	}
	return s
}

// held is what a table that knows nothing reads back.
func held(t testing.TB) []routing.Route {
	t.Helper()
	tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
	defer tab.Close()
	complete, err := tab.learn()
	if err != nil || !complete {
		t.Fatal(complete, err)
	}
	return tab.have
}

func wantHeld(t testing.TB, want []routing.Route) {
	t.Helper()
	if d := cmp.Diff(fmt.Sprint(want), fmt.Sprint(held(t))); d != "" {
		t.Fatalf("-want +kernel:\n%s", d)
	}
}

func TestKernelHoldsWhatIsSet(t *testing.T) {
	uplink(t)
	tab := table(t)
	if s := set(t, tab, mixed()); s.Changed != len(mixed()) {
		t.Errorf("changed %d", s.Changed)
	}
	wantHeld(t, mixed())
	for _, line := range []string{
		"10.244.2.0/24 via 10.1.0.12 dev up0 proto 114 metric 114",
		"unreachable 10.244.1.0/24 proto 114 metric 1000114",
	} {
		if got := ip(t, "route show"); !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

func TestSetTwiceChangesNothing(t *testing.T) {
	uplink(t)
	tab := table(t)
	set(t, tab, mixed())
	for _, doubt := range []bool{false, true} {
		if doubt {
			tab.Invalidate()
		}
		if s := set(t, tab, mixed()); s.Changed != 0 {
			t.Errorf("doubt %v: changed %d", doubt, s.Changed)
		}
	}
}

func TestRouteFollowsEveryChangeOfItsNextHops(t *testing.T) {
	uplink(t)
	tab := table(t)
	steps := [][]routing.Route{
		sorted(via("10.244.0.0/16", "10.1.0.1"), via("fd00:244::/48", "fd01::1")),
		sorted(via("10.244.0.0/16", "10.1.0.1", "10.1.0.2"), via("fd00:244::/48", "fd01::1", "fd01::2")),
		sorted(via("10.244.0.0/16", "10.1.0.2", "10.1.0.3"), via("fd00:244::/48", "fd01::2", "fd01::3")),
		sorted(via("10.244.0.0/16", "10.1.0.3"), via("fd00:244::/48", "fd01::3")),
		sorted(of(routing.Unreachable, "10.244.0.0/16"), of(routing.Unreachable, "fd00:244::/48")),
		sorted(via("10.244.0.0/16", "10.1.0.2", "10.1.0.3"), via("fd00:244::/48", "fd01::2", "fd01::3")),
		{},
	}
	for _, want := range steps {
		set(t, tab, want)
		wantHeld(t, want)
	}
}

func TestWhatAnEarlierRunLeftIsAdoptedOrRemoved(t *testing.T) {
	uplink(t)
	ip(t, "route add 10.244.2.0/24 via 10.1.0.12 proto 114 metric 114")
	ip(t, "route add 10.244.9.0/24 via 10.1.0.19 proto 114 metric 114")
	ip(t, "route add blackhole 10.244.8.0/24 proto 114 metric 114")
	ip(t, "rule add not iif lo lookup 99 priority 9 protocol 114")
	want := []routing.Route{via("10.244.2.0/24", "10.1.0.12"), via("10.244.8.0/24", "10.1.0.18")}
	if s := set(t, table(t), want); s.Changed != 2 {
		t.Errorf("changed %d, want 2", s.Changed)
	}
	wantHeld(t, want)
	if rules := ip(t, "rule show"); strings.Contains(rules, "proto 114") {
		t.Errorf("rules that nobody needs any more:\n%s", rules)
	}
}

// foreign are routes and rules of others, of every kind that could be confused with ours.
var foreign = []string{
	"route add 10.244.2.0/24 via 10.1.0.99 proto 114 metric 113",
	"route add 10.244.2.0/24 via 10.1.0.99 proto static metric 115",
	"route add 10.244.2.0/24 via 10.1.0.99 proto static",
	"route add 10.244.2.0/24 via 10.1.0.99 proto 114 metric 114 table 100",
	"route add 10.244.30.0/24 via 10.1.0.99 proto bird metric 114",
	"route add blackhole 10.244.31.0/24 metric 114",
	"route add 10.244.32.0/24 metric 114 nexthop via 10.1.0.98 nexthop via 10.1.0.99",
	"route add unreachable 203.0.113.0/25 table 114 metric 7 proto static",
	"-6 route add fd00:244:0:2::/64 via fd01::99 proto static metric 113",
	"-6 route add fd00:244:0:2::/64 via fd01::99 proto 114 metric 115",
	"-6 route add fd00:244:0:30::/64 via fd01::99 proto static metric 114",
	"-6 route add blackhole fd00:244:0:31::/64 metric 114",
	"-6 route add fd00:244:0:32::/64 metric 114 nexthop via fd01::98 nexthop via fd01::99",
	"rule add from 10.99.0.0/16 lookup 100 priority 50",
	"-6 rule add from fd99::/64 lookup 100 priority 50",
}

func others(t testing.TB) string {
	t.Helper()
	return ip(t, "route show table all") + ip(t, "-6 route show table all") + ip(t, "rule") + ip(t, "-6 rule")
}

func TestForeignRoutesSurvive(t *testing.T) {
	uplink(t)
	for _, f := range foreign {
		ip(t, f)
		t.Cleanup(func() { ip(t, strings.Replace(f, " add ", " del ", 1)) })
	}
	before := others(t)
	tab := table(t)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"start", func() { set(t, tab, mixed()) }},
		{"change", func() { set(t, tab, sorted(via("10.244.2.0/24", "10.1.0.13"), via("fd00:244:0:2::/64", "fd01::13"))) }},
		{"drift repair", func() {
			ip(t, "route del 10.244.2.0/24 proto 114 metric 114 table main")
			tab.Invalidate()
			set(t, tab, mixed())
		}},
		{"another process", func() { set(t, table(t), mixed()) }},
		{"cleanup", func() {
			if err := tab.Clear(context.Background()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		step.do()
		now := others(t)
		for line := range strings.Lines(before) {
			if !strings.Contains(now, line) {
				t.Errorf("after %s there is no %s", step.name, line)
			}
		}
	}
	if d := cmp.Diff(before, others(t)); d != "" {
		t.Errorf("-before +after:\n%s", d)
	}
}

func TestForeignRouteOfOurDestinationAndMetricIsReportedAndLeft(t *testing.T) {
	uplink(t)
	ip(t, "route add 10.244.2.0/24 via 10.1.0.99 proto static metric 114")
	ip(t, "-6 route add fd00:244:0:2::/64 via fd01::99 proto static metric 114")
	tab := table(t)
	s, err := tab.Set(context.Background(), mixed())
	if err == nil || s.Have != s.Want-2 || len(s.Failed) != 2 || !errors.Is(s.Failed[0].Err, ErrForeign) || !errors.Is(s.Failed[1].Err, ErrForeign) {
		t.Fatalf("state %+v, error %v", s, err)
	}
	ip(t, "route del 10.244.2.0/24 via 10.1.0.99 proto static metric 114")
	ip(t, "-6 route del fd00:244:0:2::/64 via fd01::99 proto static metric 114")
	set(t, tab, mixed())
	wantHeld(t, mixed())
}

func TestWhatTheKernelDidNotTakeAtFirstIsTold(t *testing.T) {
	uplink(t)
	tab := table(t)
	set(t, tab, mixed())
	ip(t, "route add 10.244.77.0/24 via 10.1.0.99 proto 114 metric 114") // as if it were ours
	want := sorted(append(mixed(), via("10.244.77.0/24", "10.1.0.13"))...)
	s, err := tab.Set(context.Background(), want)
	if err != nil || len(s.Failed) != 0 || len(s.Retried) != 1 || s.Retried[0].Route.Dst != netip.MustParsePrefix("10.244.77.0/24") {
		t.Errorf("state %+v, error %v", s, err)
	}
	wantHeld(t, want)
	if again, err := tab.Set(context.Background(), want); err != nil || len(again.Retried) != 0 {
		t.Errorf("once more: state %+v, error %v", again, err)
	}
}

func TestPartOfATableThatFailsDoesNotStopTheRest(t *testing.T) {
	uplink(t)
	want := sorted(append(mixed(), via("10.244.77.0/24", "192.0.2.1"))...)
	s, err := table(t).Set(context.Background(), want)
	if err == nil || s.Have != len(want)-1 || len(s.Failed) != 1 {
		t.Fatalf("state %+v, error %v", s, err)
	}
	if !strings.Contains(err.Error(), "invalid gateway") {
		t.Errorf("error %q lacks the kernel's reason", err)
	}
	wantHeld(t, mixed())
}

// TestRoutesOfOtherFamiliesAreNotTakenForThoseAskedFor asks for a family that no kernel
// has routes of, as one that was started with ipv6.disable=1 is asked for IPv6.
func TestRoutesOfOtherFamiliesAreNotTakenForThoseAskedFor(t *testing.T) {
	const absent = unix.AF_APPLETALK
	uplink(t)
	tab := table(t)
	set(t, tab, mixed())
	b, got := batch{first: tab.conn.nextSeq(1)}, map[uint8]int{}
	b.list(absent, unix.RT_TABLE_MAIN, DefaultProtocol)
	if err := tab.conn.dump(b.buf, b.first, func(_ unix.NlMsghdr, body []byte) { got[body[0]]++ }); err != nil || got[unix.AF_INET] == 0 {
		t.Fatalf("the kernel answers with routes of the families %v: %v", got, err)
	}
	err := tab.list(reader{mark: tab.mark, links: new(links)}, absent, unix.RT_TABLE_MAIN, func(r routing.Route) {
		t.Errorf("%v was taken for a route of family %d", r, absent)
	})
	if err != nil {
		t.Error(err)
	}
	if err := tab.setRule(absent, false, true); err != nil {
		t.Error("no rule is wanted, and there is none:", err)
	}
	if err := tab.setRule(absent, true, true); !errors.Is(err, unix.EAFNOSUPPORT) {
		t.Errorf("a rule that cannot be: %v", err)
	}
}

// TestUnreachableRoutesOfAFamilyThatTheKernelLacksAreNotWanted has a family that no
// kernel has rules of stand for IPv6, as on a machine started with ipv6.disable=1.
func TestUnreachableRoutesOfAFamilyThatTheKernelLacksAreNotWanted(t *testing.T) {
	uplink(t)
	var four, six []routing.Route
	for _, kind := range []routing.Kind{routing.Unreachable, routing.UnreachableForwarded} {
		four = append(four, routing.Route{Dst: netip.MustParsePrefix("203.0.113.0/26"), Kind: kind})
		six = append(six, routing.Route{Dst: netip.MustParsePrefix("2001:db8:113::/120"), Kind: kind})
	}
	tab := table(t)
	tab.families[1] = unix.AF_APPLETALK
	want := sorted(slices.Concat(four, six)...)
	for range 2 {
		if s, err := tab.Set(context.Background(), want); err != nil || s.Want != len(four) || s.Have != len(four) {
			t.Fatalf("state %+v, error %v", s, err)
		}
	}
	wantHeld(t, sorted(four...))
	lost := via("fd00:244:0:2::/64", "2001:db8:ffff::1")
	if s, err := tab.Set(context.Background(), sorted(append(want, lost)...)); err == nil || s.Want != len(four)+1 || len(s.Failed) != 1 {
		t.Errorf("a route to a pod is still wanted: state %+v, error %v", s, err)
	}
}

// repaired sets the table again at each doubt until the kernel holds want.
func repaired(t *testing.T, tab *Table, doubt <-chan struct{}, want []routing.Route, within time.Duration) {
	t.Helper()
	wait.True(t, within, time.Millisecond, "it is repaired", func() (bool, string) {
		select {
		case <-doubt:
		default:
			return false, fmt.Sprintf("nobody doubts that the kernel holds %v", held(t))
		}
		tab.Invalidate()
		s, err := tab.Set(context.Background(), want)
		has := held(t)
		return err == nil && s.Have == len(want) && slices.Equal(has, want), fmt.Sprintf("the kernel holds %v", has)
	})
}

func TestWhatAForeignHandChangesIsRepaired(t *testing.T) {
	uplink(t)
	tab := table(t)
	set(t, tab, mixed())
	doubt, err := tab.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hands := []struct {
		name string
		do   []string
	}{
		{"a route is deleted", []string{"route del 10.244.2.0/24 proto 114"}},
		{"a route's next hop is changed", []string{"route replace 10.244.2.0/24 via 10.1.0.77 proto 114 metric 114"}},
		{"all our routes are flushed", []string{"route flush proto 114", "-6 route flush proto 114"}},
		{"our rule is deleted", []string{"rule del priority 31140"}},
		{"the link goes down and up", []string{"link set up0 down", "link set up0 up", "-6 addr replace fd01::11/64 dev up0 nodad"}},
		{"the address goes and comes back", []string{"addr del 10.1.0.11/24 dev up0", "addr add 10.1.0.11/24 dev up0"}},
		{"the address moves to another link", []string{
			"link add other0 type veth peer name other1", "link set other0 up", "link set other1 up",
			"addr del 10.1.0.11/24 dev up0", "addr add 10.1.0.11/24 dev other0",
		}},
		{"the address moves back", []string{"addr del 10.1.0.11/24 dev other0", "addr add 10.1.0.11/24 dev up0", "link del other0"}},
		{"a second route of ours with the same key appears", []string{"route append 10.244.2.0/24 via 10.1.0.66 proto 114 metric 114"}},
	}
	for _, h := range hands {
		t.Run(h.name, func(t *testing.T) {
			for _, args := range h.do {
				ip(t, args)
			}
			repaired(t, tab, doubt, mixed(), 15*time.Second)
			if !strings.Contains(ip(t, "rule"), "not from all iif lo lookup 114 proto 114") {
				t.Error("the rule is missing")
			}
		})
	}
}

// TestNothingIsDeletedWhileTheTableCannotBeReadWhole changes addresses all the time, so
// that the kernel says of nearly every dump that it was interrupted.
func TestNothingIsDeletedWhileTheTableCannotBeReadWhole(t *testing.T) {
	uplink(t)
	tab := table(t)
	tab.attempts = 1
	link, err := netlink.LinkByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	address := func(i int) *netlink.Addr {
		return &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 2, byte(i>>8), byte(i)), Mask: net.CIDRMask(32, 32)}}
	}
	for i := range 1000 { // more than one message holds
		if err := netlink.AddrAdd(link, address(i)); err != nil {
			t.Fatal(err)
		}
	}
	churn, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for churn.Err() == nil {
			_ = netlink.AddrAdd(link, address(2000))
			_ = netlink.AddrDel(link, address(2000))
		}
	}()
	interrupted := 0
	for range 100 {
		for tab.Invalidate(); !tab.synced; tab.Invalidate() { // until all could be read, and is there
			set(t, tab, mixed())
			if tab.synced {
				break
			}
		}
		tab.Invalidate()
		s, err := tab.Set(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if tab.synced {
			continue // read whole, and so deleted
		}
		if interrupted++; s.Changed != 0 {
			t.Errorf("%d routes were deleted though not all was read", s.Changed)
		}
	}
	stop()
	<-done
	if interrupted == 0 {
		t.Error("no dump was interrupted")
	}
	t.Log(interrupted, "of 100 times not all could be read")
}

func TestLostMessagesAreADoubt(t *testing.T) {
	uplink(t)
	c, err := dial(watched...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.patience(pollEvery); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1); err != nil { // the least there is
		t.Fatal(err)
	}
	for i := range 100 { // none of them is ours, so that only their loss can be what is told
		ip(t, fmt.Sprintf("route add 198.51.100.%d/32 via 10.1.0.5", i))
	}
	w := watcher{mark: mark{DefaultProtocol, DefaultMetric}, tunnel: new(atomic.Uint32), entries: new(atomic.Pointer[entries])}
	doubt := make(chan struct{}, 1)
	go w.listen(t.Context(), c, doubt)
	select {
	case <-doubt:
	case <-time.After(5 * time.Second):
		t.Error("nobody was told that messages were lost")
	}
}
