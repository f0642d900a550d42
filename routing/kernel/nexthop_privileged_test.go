//go:build privileged

package kernel

import (
	"context"
	"strings"
	"testing"
)

func TestARouteWhoseNextHopHasAHostRouteOverAnotherLinkIsWrittenOnce(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	for _, args := range []string{
		"link set side0 up", "link set side1 up", "addr add 10.9.0.1/24 dev side0", "-6 addr add fd09::1/64 dev side0 nodad",
		"route add 10.1.0.12/32 dev side0", "-6 route add fd01::12/128 dev side0",
	} {
		ip(t, args)
	}
	tab := table(t)
	want := sorted(via("10.244.2.0/24", "10.1.0.12"), via("10.244.0.0/16", "10.1.0.1", "10.1.0.12"), via("fd00:244:0:2::/64", "fd01::12"))
	set(t, tab, want)
	if got := ip(t, "route show 10.244.2.0/24"); !strings.Contains(got, "dev side0") {
		t.Fatalf("the kernel does not take the host route: %s", got)
	}
	for i := range 3 {
		tab.Invalidate()
		if s := set(t, tab, want); s.Changed > 0 {
			t.Errorf("resync %d: %d routes written though nothing changed: %s", i+1, s.Changed, ip(t, "route show proto 114"))
		}
	}
	ip(t, "route del 10.1.0.12/32 dev side0")
	ip(t, "-6 route del fd01::12/128 dev side0")
	tab.Invalidate()
	if s := set(t, tab, want); s.Changed != len(want) {
		t.Errorf("%d routes follow their next hops back to the subnet's link, want %d", s.Changed, len(want))
	}
	if got := ip(t, "route show proto 114") + ip(t, "-6 route show proto 114"); strings.Contains(got, "side0") {
		t.Errorf("routes stay on the other link:\n%s", got)
	}
}

func TestLinkLocalNextHopsLeadToBothFamilies(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	ip(t, "link set side1 up")
	ip(t, "link set side0 up")
	tab := table(t)
	for _, tt := range []struct {
		hops []string
		want []string // in what ip shows of IPv4 and IPv6
	}{
		{[]string{"fe80::1%up0"}, []string{"10.244.0.0/16 via inet6 fe80::1 dev up0", "fd00:244::/48 via fe80::1 dev up0"}},
		{[]string{"fe80::1%side0"}, []string{"10.244.0.0/16 via inet6 fe80::1 dev side0", "fd00:244::/48 via fe80::1 dev side0"}},
		{[]string{"fe80::1%side0", "fe80::1%up0"}, []string{"nexthop via inet6 fe80::1 dev side0", "nexthop via inet6 fe80::1 dev up0", "nexthop via fe80::1 dev side0", "nexthop via fe80::1 dev up0"}},
		{[]string{"fe80::2%up0"}, []string{"10.244.0.0/16 via inet6 fe80::2 dev up0", "fd00:244::/48 via fe80::2 dev up0"}},
	} {
		want := sorted(via("10.244.0.0/16", tt.hops...), via("fd00:244::/48", tt.hops...))
		if s := set(t, tab, want); s.Changed != len(want) {
			t.Errorf("%v: changed %d", tt.hops, s.Changed)
		}
		wantHeld(t, want)
		got := ip(t, "route show proto 114") + ip(t, "-6 route show proto 114")
		for _, line := range tt.want {
			if !strings.Contains(got, line) {
				t.Errorf("no %q in\n%s", line, got)
			}
		}
		tab.Invalidate()
		if s := set(t, tab, want); s.Changed != 0 {
			t.Errorf("%v: read back, %d are written again", tt.hops, s.Changed)
		}
	}
	gone := sorted(via("10.244.0.0/16", "fe80::1%gone0"), via("10.244.2.0/24", "10.1.0.12"))
	if s, err := tab.Set(context.Background(), gone); err == nil || s.Have != 1 || len(s.Failed) != 1 {
		t.Errorf("over a link that is not there: %+v, %v", s, err)
	}
}
