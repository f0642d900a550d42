package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

func TestAMachinesPodRoutesAllBearPlinthsMarkAndNoOtherRouteIsTouched(t *testing.T) {
	l := story.Shared(t)
	const host = "w1"
	foreign := netip.MustParsePrefix("10.244.200.0/24") // within the pod network, by somebody else
	space := l.Namespace(host)
	must(t, netns.IP(space, "route add "+foreign.String()+" via 10.10.1.12 proto 77"))
	t.Cleanup(func() { netns.IP(space, "route del "+foreign.String()+" proto 77") })

	// Somebody deletes one of ours: it comes back, and the foreign one stays.
	mate, err := l.Node(t.Context(), "w2")
	must(t, err)
	must(t, netns.IP(space, "route del "+mate.Spec.PodCIDRs[0]+" proto "+story.Protocol))
	const soon = 5 * time.Second // and even three times that is well before a resync
	must(t, lab.Within(t.Context(), soon, func(ctx context.Context) error {
		hops, err := l.NextHops(ctx, host, netip.MustParsePrefix(mate.Spec.PodCIDRs[0]))
		if err == nil && !slices.Equal(hops, []netip.Addr{l.Topology.MachineAddress("w2").V4}) {
			err = fmt.Errorf("%s reaches the pods of w2 via %v", host, hops)
		}
		return err
	}))

	routes, err := l.KernelRoutes(t.Context(), host)
	must(t, err)
	left := errors.New("the foreign route is gone")
	for _, r := range routes {
		p, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			continue // default, or a single address
		}
		switch {
		case r.Protocol == "77":
			left = nil
		case r.Dev == "pods" && r.Protocol == "kernel": // the bridge of the machine's own pods
		case lab.PodCIDR4.Overlaps(p) || lab.PodCIDR6.Overlaps(p):
			if r.Protocol != story.Protocol {
				t.Errorf("a route to pods without Plinth's mark: %+v", r)
			}
		default:
			if r.Protocol == story.Protocol && !lab.PublicPool4.Overlaps(p) && !lab.PublicPool6.Overlaps(p) {
				t.Errorf("a route with Plinth's mark that leads to no pod and no VIP: %+v", r)
			}
		}
	}
	must(t, left)
}

// TestNoAgentWatchesOtherNodes: all learn of them from the directory that the controller keeps, with the rights that they are deployed with.
func TestNoAgentWatchesOtherNodes(t *testing.T) {
	l := story.Shared(t)
	for _, machine := range l.Topology.Machines() {
		must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
			metrics, err := l.AgentMetrics(ctx, machine.Name)
			if err == nil && !strings.Contains(metrics, "\nplinth_agent_watches_nodes 0\n") {
				err = fmt.Errorf("the agent of %s watches Nodes, or does not say", machine.Name)
			}
			return err
		}))
	}
}
