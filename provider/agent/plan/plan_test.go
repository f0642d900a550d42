package plan_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
)

func TestPoolsAreUnreachableWithoutWhatTheyExclude(t *testing.T) {
	got := fmt.Sprint(plan.PoolAddresses(agenttest.OneMachine(t)).Prefixes())
	if want := "[192.168.50.32/27 192.168.60.1/32 192.168.60.2/31]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNothingMayLeaveOutsidePoolsAndPodCIDRs(t *testing.T) {
	in := agenttest.SomeInputs(t)
	m, _ := in.Machine()
	got := fmt.Sprint(plan.MayLeave(in, m))
	if want := "[10.244.0.0/24 192.168.50.0/26 192.168.60.1/32 192.168.60.2/31 192.168.60.4/32]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if none := plan.MayLeave(plan.Inputs{Inventory: &inventory.Inventory{}}, m); none == nil || len(none) > 0 {
		t.Errorf("without pools: %#v, which is not an empty list", none)
	}
}

func TestRouterIDIsAnIPv4AddressOfAHost(t *testing.T) {
	if got := plan.RouterID([]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")}); got != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("got %v", got)
	}
	if got := plan.RouterID([]netip.Addr{netip.MustParseAddr("fd00::1")}); got != netip.MustParseAddr("148.2.92.203") {
		t.Errorf("a machine whose router ID was good has %v now, before 148.2.92.203", got)
	}
	seen := map[netip.Addr]bool{}
	for a, n := netip.MustParseAddr("2001:db8:10:1::1"), 0; n < 10_000; a, n = a.Next(), n+1 {
		id := plan.RouterID([]netip.Addr{a})
		if first := id.As4()[0]; first == 0 || first == 127 || first >= 224 || seen[id] {
			t.Fatalf("%v has the router ID %v, which another one has: %v", a, id, seen[id])
		}
		seen[id] = true
	}
	a, b := plan.RouterID([]netip.Addr{netip.MustParseAddr("fd00::1")}), plan.RouterID([]netip.Addr{netip.MustParseAddr("fd00::2")})
	if !a.Is4() || a.IsUnspecified() || a == b {
		t.Errorf("got %v and %v", a, b)
	}
}

func TestPodCIDRThatAnOlderNodeClaimsIsNotAnnounced(t *testing.T) {
	in := agenttest.SomeInputs(t)
	in.Inventory.PodNetwork = inventory.PodNetwork{Mode: inventory.ModeDirect, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	in.Self.Created = time.Unix(200, 0)
	in.Nodes[0].Created, in.Nodes[0].PodCIDRs = time.Unix(100, 0), in.Self.PodCIDRs
	m, _ := in.Machine()
	table := routing.Plan(plan.RoutingView(in, m, inventory.ModeDirect, nil))
	if got := plan.OwnCIDRs(in.Self, table.Refusals); len(got) > 0 {
		t.Errorf("announces %v", got)
	}
	in.Nodes[0].Created = time.Unix(300, 0)
	table = routing.Plan(plan.RoutingView(in, m, inventory.ModeDirect, nil))
	if got := plan.OwnCIDRs(in.Self, table.Refusals); len(got) != 1 {
		t.Errorf("the older one announces %v", got)
	}
}
