package labs

import (
	"context"
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

func TestAHomelabOfThreeMachinesBehindOneRouterServesWhileAnotherLabStandsBesideIt(t *testing.T) {
	other := story.Shared(t)
	t.Cleanup(func() { // after this lab has gone, the one beside it has noticed nothing
		must(t, other.WaitReady(context.Background(), 10*time.Second))
		must(t, other.WaitFabric(context.Background()))
	})
	topology := lab.Homelab()
	topology.StaticPods = true // a CNI gives pods their addresses and routes; Plinth leaves both alone
	l := story.Beside(t, topology)
	story.Web(t, l, "home", 3)
	vips := story.Expose(t, l, lab.LoadBalancer("home", "home"))
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	for _, m := range topology.Machines() {
		routes, err := l.KernelRoutes(t.Context(), m.Name)
		must(t, err)
		for _, r := range routes {
			if p, err := netip.ParsePrefix(r.Dst); err == nil && r.Protocol == story.Protocol && lab.PodCIDR4.Overlaps(p) {
				t.Errorf("%s has a pod route of Plinth's, which was not asked for any: %+v", m.Name, r)
			}
		}
	}

	// The machines join the AS of their router, which then hears how much a pool is preferred.
	within := strings.Replace(lab.Inventory(topology), fmt.Sprintf("    asn: %d\n", lab.MachineASN), fmt.Sprintf("    asn: %d\n", topology.Routers[0].ASN), 1)
	within = strings.Replace(within, "    - name: public\n", "    - name: public\n      advertise: {localPref: 250}\n", 1)
	must(t, l.ConfigureRouters(t.Context(), within))
	must(t, l.ApplyInventory(t.Context(), within))
	for _, vip := range vips {
		must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
			paths, err := l.ShowBGP(ctx, "gateway", lab.VIPPrefix(vip))
			if err == nil && strings.Count(paths, "localpref 250") != len(topology.Machines()) {
				err = fmt.Errorf("%s is not preferred from every machine:\n%s", vip, paths)
			}
			return err
		}))
	}
	story.Announced(t, l, vips)
}

func TestAMachineWithTwoRoutersIsReachedThroughTheOneThatIsLeft(t *testing.T) {
	l := story.Beside(t, lab.TwoRouters())
	story.Web(t, l, "pair", 2)
	vips := story.Expose(t, l, lab.LoadBalancer("pair", "pair"))
	story.Announced(t, l, vips)
	served := func() {
		for _, vip := range vips {
			must(t, l.WaitServed(t.Context(), vip))
		}
	}
	served()

	must(t, l.StopRouter(t.Context(), "tor-b")) // BIRD; what it put into the kernel stays
	served()
	m1, m2 := l.Topology.MachineAddress("m1"), l.Topology.MachineAddress("m2")
	for i, want := range [][]netip.Addr{{m1.V4, m2.V4}, {m1.V6, m2.V6}} {
		hops, err := l.NextHops(t.Context(), "tor-a", lab.VIPPrefix(vips[i]))
		must(t, err)
		if !slices.Equal(hops, want) {
			t.Errorf("tor-a reaches %s via %v, want %v", vips[i], hops, want)
		}
	}

	a, b := l.Topology.RouterAddress("tor-a", "r1"), l.Topology.RouterAddress("tor-b", "r1")
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error { return podsVia(ctx, l, "m1", a) }))
	must(t, l.StopAgent(t.Context(), "m1", syscall.SIGTERM))
	must(t, l.StartAgentAgain("m1"))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		must(t, podsVia(ctx, l, "m1", a)) // the new agent has never had a session with tor-b
		sessions, err := l.Sessions(ctx, "m1")
		if err == nil && !slices.ContainsFunc(sessions, func(s lab.Session) bool { return s.Up }) {
			err = fmt.Errorf("no session is up yet: %+v", sessions)
		}
		return err
	}))
	must(t, podsVia(t.Context(), l, "m1", a))

	must(t, l.StartRouter(t.Context(), "tor-b"))
	must(t, l.WaitFabric(t.Context()))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error { return podsVia(ctx, l, "m1", a, b) }))
	story.Announced(t, l, vips)
}

// podsVia says whether these routers, and no others, are a machine's way to the pods of
// other racks.
func podsVia(ctx context.Context, l *lab.Lab, machine string, routers ...lab.Dual) error {
	var v4, v6 []netip.Addr
	for _, r := range routers {
		v4, v6 = append(v4, r.V4), append(v6, r.V6)
	}
	for p, want := range map[netip.Prefix][]netip.Addr{lab.PodCIDR4: v4, lab.PodCIDR6: v6} {
		hops, err := l.NextHops(ctx, machine, p)
		if err == nil && !slices.Equal(hops, want) {
			err = fmt.Errorf("%s reaches %s via %v, want %v", machine, p, hops, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
