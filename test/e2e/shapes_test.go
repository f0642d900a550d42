package e2e

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

// beside starts another lab beside the shared one, with Plinth on it, for the
// length of a story.
func beside(t *testing.T, topology lab.Topology) *lab.Lab {
	t.Helper()
	l, err := lab.Start(t.Context(), topology, lab.Options{Name: "beside"})
	t.Cleanup(func() {
		if t.Failed() && l != nil {
			l.SaveLogs(filepath.Join(os.TempDir(), "plinth-e2e-logs-beside"))
		}
		if err := lab.Down(context.Background(), "beside"); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	must(t, l.StartPlinth(t.Context(), lab.Inventory(topology)))
	return l
}

func TestAHomelabOfThreeMachinesBehindOneRouterServesWhileAnotherLabStandsBesideIt(t *testing.T) {
	other := shared(t)
	t.Cleanup(func() { // after this lab has gone, the one beside it has noticed nothing
		must(t, other.WaitReady(context.Background(), 10*time.Second))
		must(t, other.WaitFabric(context.Background()))
	})
	topology := lab.Homelab()
	topology.StaticPods = true // a CNI gives pods their addresses and routes; Plinth leaves both alone
	l := beside(t, topology)
	web(t, l, "home", 3)
	vips := expose(t, l, lab.LoadBalancer("home", "home"))
	announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	for _, m := range topology.Machines() {
		routes, err := l.KernelRoutes(t.Context(), m.Name)
		must(t, err)
		for _, r := range routes {
			if p, err := netip.ParsePrefix(r.Dst); err == nil && r.Protocol == protocol && lab.PodCIDR4.Overlaps(p) {
				t.Errorf("%s has a pod route of Plinth's, which was not asked for any: %+v", m.Name, r)
			}
		}
	}
}

func TestAMachineWithTwoRoutersIsReachedThroughTheOneThatIsLeft(t *testing.T) {
	l := beside(t, lab.TwoRouters())
	web(t, l, "pair", 2)
	vips := expose(t, l, lab.LoadBalancer("pair", "pair"))
	announced(t, l, vips)
	must(t, l.WaitServed(t.Context(), vips[0]))

	must(t, l.StopRouter(t.Context(), "tor-b")) // BIRD; what it put into the kernel stays
	must(t, l.WaitServed(t.Context(), vips[0]))
	hops, err := l.NextHops(t.Context(), "tor-a", lab.VIPPrefix(vips[0]))
	must(t, err)
	if want := []netip.Addr{l.Topology.MachineAddress("m1").V4, l.Topology.MachineAddress("m2").V4}; !slices.Equal(hops, want) {
		t.Errorf("tor-a reaches %s via %v, want %v", vips[0], hops, want)
	}
	must(t, l.StartRouter(t.Context(), "tor-b"))
	must(t, l.WaitFabric(t.Context()))
	announced(t, l, vips)
}
