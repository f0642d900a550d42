package onlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestAPhoneAtHomeAndAClientBehindTheGatewayReachVIPsOnTheLink(t *testing.T) {
	l := story.Home(t)
	story.Web(t, l, "page", 3)
	vips := story.Expose(t, l, lab.LoadBalancer("page", "page"))
	if !lab.LANPool4.Contains(vips[0]) || !lab.LANPool6.Contains(vips[1]) {
		t.Fatalf("VIPs %v, want some of %s and %s", vips, lab.LANPool4, lab.LANPool6)
	}
	owners := story.Owned(t, l, vips)
	for _, vip := range vips {
		for _, from := range []string{lab.Phone, "client", lab.HomeGateway} {
			must(t, l.WaitServedFrom(t.Context(), from, vip))
		}
		t.Logf("%s answers for %s", owners[vip], vip)
		must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error { return leftTo(ctx, l, vip, owners[vip]) }))
		const unserved = 4321
		if _, err := l.GetFrom(t.Context(), lab.Phone, lab.URL(vip, unserved)); !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("a port of %s that nobody serves: %v, want that it is unreachable, at once", vip, err)
		}
	}
}

// leftTo says which agent does not say that it leaves a VIP to its owner, or as the owner that it answers.
func leftTo(ctx context.Context, l *lab.Lab, vip netip.Addr, owner string) error {
	for _, m := range l.Topology.Machines() {
		want := []string{"NotOwner"}
		if m.Name == owner {
			want = []string{""}
		}
		links, err := l.Links(ctx, m.Name)
		if err != nil {
			return err
		}
		var reasons []string
		for _, link := range links {
			for _, v := range link.VIPs {
				if v.VIP == vip.String() {
					reasons = append(reasons, v.Reason)
				}
			}
		}
		if !slices.Equal(reasons, want) {
			return fmt.Errorf("%s gives the reasons %q for %s, want %q", m.Name, reasons, vip, want)
		}
	}
	return nil
}

func TestAVIPOnTheLinkFollowsThePodsOfALocalService(t *testing.T) {
	l := story.Home(t)
	story.Web(t, l, "lonely", 1)
	vips := story.Expose(t, l, story.Local(lab.LoadBalancer("lonely", "lonely")))
	pods, err := l.Pods(t.Context(), "lonely")
	must(t, err)
	for _, vip := range vips {
		_, err := l.WaitOwner(t.Context(), lab.Laptop, vip, pods[0].Spec.NodeName)
		must(t, err)
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
		a, err := l.GetFrom(t.Context(), lab.Phone, lab.URL(vip, lab.WebPort))
		must(t, err)
		if want := l.Topology.HostAddress(lab.Phone); netip.MustParseAddr(a.Client) != want.V4 && netip.MustParseAddr(a.Client) != want.V6 {
			t.Errorf("the pod was asked by %s, want the phone, %v", a.Client, want)
		}
	}
}

func TestServicesThatShareAVIPOnTheLinkHaveOneOwner(t *testing.T) {
	l := story.Home(t)
	story.Web(t, l, "both", 3)
	first, second := lab.LoadBalancer("both-web", "both"), lab.LoadBalancer("both-echo", "both")
	first.Spec.Ports, second.Spec.Ports = first.Spec.Ports[:1], second.Spec.Ports[1:]
	first.Annotations = map[string]string{"plinth.dev/sharing-key": "both"}
	second.Annotations = first.Annotations
	vips := story.Expose(t, l, first)
	if also := story.Expose(t, l, second); !slices.Equal(vips, also) {
		t.Fatalf("the Services have %v and %v", vips, also)
	}
	story.Owned(t, l, vips)
	must(t, l.WaitServedFrom(t.Context(), lab.Phone, vips[0]))
	story.Packets(t, l, vips[0]).Stop() // the other Service is served, too
}

// One Service has a VIP of a pool that routers are told of, another one of a pool on the rack's
// subnet, with the same machines.
func TestVIPsOnTheLinkAndOverBGPLiveSideBySide(t *testing.T) {
	topology := lab.TwoRacks()
	topology.Racks[0].Hosts = []string{lab.Phone, lab.Laptop}
	l := story.Lab(t, story.BothName(), topology)
	const whenAsked = "      autoAssign: false\n      advertise: {via: link}\n"
	onLink := lab.Pool(topology, "lan", lab.LANPool4.String(), lab.LANPool6.String()) + whenAsked
	mixed := lab.Pool(topology, "mixed", "10.10.1.190-10.10.1.199", "2001:db8:1113::/112") + whenAsked
	must(t, l.StartPlinth(t.Context(), lab.Inventory(topology), onLink, mixed))
	story.Web(t, l, "side", 4)
	routed := story.Expose(t, l, lab.LoadBalancer("routed", "side"))
	s := lab.LoadBalancer("linked", "side")
	s.Annotations = map[string]string{"plinth.dev/pool": "lan"}
	linked := story.Expose(t, l, s)
	story.Announced(t, l, routed)
	for _, vip := range linked {
		onLinkAlone(t, l, vip, "w1", "w2")
	}
	for _, vip := range routed {
		overBGPAlone(t, l, vip)
	}
	oneOfEach(t, l)
	switchedOnlyWhenAsked(t, l, linked, onLink, mixed)
}

// oneOfEach exposes a Service with a VIP on the link and one over BGP, of a pool that has both; the class and the machine
// are asked for by name.
func oneOfEach(t *testing.T, l *lab.Lab) {
	t.Helper()
	s := lab.LoadBalancer("mixed", "side")
	class := "plinth.dev/lb"
	s.Spec.LoadBalancerClass = &class
	s.Annotations = map[string]string{"plinth.dev/pool": "mixed", "plinth.dev/home": "w2"}
	vips := story.Expose(t, l, s)
	linked, routed := vips[0], vips[1]
	if linked.Is6() || routed.Is4() {
		t.Fatalf("VIPs %v, want one of each family", vips)
	}
	onLinkAlone(t, l, linked, "w2")
	story.Announced(t, l, vips[1:])
	overBGPAlone(t, l, routed)
}

// onLinkAlone makes sure that a VIP is served, that one of these machines answers for it, and that no router has heard of it.
func onLinkAlone(t *testing.T, l *lab.Lab, vip netip.Addr, owners ...string) {
	t.Helper()
	_, err := l.WaitOwner(t.Context(), lab.Laptop, vip, owners...)
	must(t, err)
	must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	must(t, l.WaitServed(t.Context(), vip))
	for _, r := range l.Topology.Routers {
		routes, err := l.BGPRoutes(t.Context(), r.Name, lab.VIPPrefix(vip))
		must(t, err)
		if len(routes) > 0 {
			t.Errorf("%s has heard of %s: %v", r.Name, vip, routes)
		}
	}
}

// overBGPAlone makes sure that a VIP is served, and that nobody answers for it on the link.
func overBGPAlone(t *testing.T, l *lab.Lab, vip netip.Addr) {
	t.Helper()
	must(t, l.WaitServed(t.Context(), vip))
	owners, err := l.Owners(t.Context(), lab.Laptop, vip)
	must(t, err)
	if len(owners) > 0 {
		t.Errorf("%v answer for %s on the link", owners, vip)
	}
}

// switchedOnlyWhenAsked edits how the VIPs of a pool are announced: by leaving out what says so,
// which is refused, and by saying so.
func switchedOnlyWhenAsked(t *testing.T, l *lab.Lab, vips []netip.Addr, pool, other string) {
	t.Helper()
	usual := lab.Inventory(l.Topology)
	silent, said := strings.Replace(pool, "advertise: {via: link}", "", 1), strings.Replace(pool, "via: link", "via: bgp", 1)
	must(t, l.ApplyInventory(t.Context(), usual, silent, other))
	must(t, story.StatusSays(t, l, "false", "P0708", 30*time.Second))
	for _, vip := range vips {
		_, err := l.WaitOwner(t.Context(), lab.Laptop, vip, "w1", "w2")
		must(t, err)
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	must(t, l.ConfigureRouters(t.Context(), usual, said, other)) // they take no address that is not told
	must(t, l.ApplyInventory(t.Context(), usual, said, other))
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
			owners, err := l.Owners(ctx, lab.Laptop, vip)
			if err == nil && len(owners) > 0 {
				err = fmt.Errorf("%v answer for %s on the link still", owners, vip)
			}
			return err
		}))
	}
}
