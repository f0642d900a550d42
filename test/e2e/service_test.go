package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

func TestAServiceGetsAVIPInBothFamiliesAndItsPodsAnswerTheOutsideClient(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "story", 4)
	vips := story.Expose(t, l, lab.LoadBalancer("story", "story"))
	if len(vips) != 2 || !lab.PublicPool4.Contains(vips[0]) || !lab.PublicPool6.Contains(vips[1]) {
		t.Fatalf("VIPs %v, want one of %s and one of %s", vips, lab.PublicPool4, lab.PublicPool6)
	}
	story.Announced(t, l, vips) // in the kernel of each router, one next hop per machine of its rack

	for _, vip := range vips {
		for _, r := range l.Topology.Routers {
			fromMachines(t, l, r, vip)
		}
		claim, err := l.Kube.NetworkingV1().IPAddresses().Get(t.Context(), vip.String(), metav1.GetOptions{})
		must(t, err)
		if p := claim.Spec.ParentRef; p.Resource != "services" || p.Namespace != "default" || p.Name != "story" {
			t.Errorf("%s is held by %+v, want the Service", vip, p)
		}
		must(t, l.WaitServed(t.Context(), vip))
		nodes := map[string]bool{}
		must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
			a, err := l.Get(ctx, lab.URL(vip, lab.WebPort))
			if err != nil {
				return err
			}
			if nodes[a.Node] = true; len(nodes) < 2 {
				return fmt.Errorf("all requests to %s were answered on %v", vip, nodes)
			}
			return nil
		}))
		must(t, lab.Within(t.Context(), 15*time.Second, func(ctx context.Context) error { // a kernel limits how many errors it sends
			if _, err := l.Get(ctx, lab.URL(vip, 81)); !story.Refused(err) {
				return fmt.Errorf("a port of %s that nobody serves: %v, want an answer", vip, err)
			}
			return nil
		}))
	}

	must(t, l.ScaleWeb(t.Context(), "story", 0))
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip))
	}
	bounces(t, l, vips, "without an endpoint")
	must(t, l.RemoveService(t.Context(), "story"))
	bounces(t, l, vips, "of a Service that has gone")
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip))
		must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
			_, err := l.Kube.NetworkingV1().IPAddresses().Get(ctx, vip.String(), metav1.GetOptions{})
			switch {
			case err == nil:
				return fmt.Errorf("%s is still held after its Service has gone", vip)
			case apierrors.IsNotFound(err):
				return nil
			}
			return err
		}))
	}
}

// bounces fails where machines give back to their routers what these, late to hear that
// a VIP was withdrawn, still send to them.
func bounces(t *testing.T, l *lab.Lab, vips []netip.Addr, what string) {
	t.Helper()
	late := func(do string) {
		for machine, router := range map[string]string{"w1": "tor-r1", "w3": "tor-r2"} {
			at := l.Topology.MachineAddress(machine)
			for i, via := range []netip.Addr{at.V4, at.V6} {
				must(t, netns.IP(l.Namespace(router), fmt.Sprintf("route %s %s via %s proto 77", do, lab.VIPPrefix(vips[i]), via)))
			}
		}
	}
	late("add")
	for _, vip := range vips {
		err := lab.Within(t.Context(), 15*time.Second, func(ctx context.Context) error { // kube-proxy may be late, too
			if _, err := l.Get(ctx, lab.URL(vip, lab.WebPort)); !story.Refused(err) {
				return fmt.Errorf("%s, a VIP %s, is still sent to machines: %v, want an answer", vip, what, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	late("del")
}

// fromMachines checks what a router itself says: two next hops, straight from
// the machines of its rack.
func fromMachines(t *testing.T, l *lab.Lab, r lab.Router, vip netip.Addr) {
	t.Helper()
	routes, err := l.BGPRoutes(t.Context(), r.Name, lab.VIPPrefix(vip))
	must(t, err)
	direct := 0
	for _, route := range routes {
		if len(route.ASPath) == 1 && route.ASPath[0] == lab.MachineASN && route.Best {
			direct++
		}
	}
	if direct != 2 {
		t.Errorf("%s (%s) knows %d best routes to %s from machines, want 2: %+v", r.Name, r.OS, direct, vip, routes)
	}
}
