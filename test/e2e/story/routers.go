package story

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

// Sessions waits until each machine's sessions are up, and returns since when they are
// and how often they were lost.
func Sessions(t *testing.T, l *lab.Lab) map[string][]lab.Session {
	t.Helper()
	all := map[string][]lab.Session{}
	for _, m := range l.Topology.Machines() {
		must(t, l.WaitSessions(t.Context(), m.Name))
		list, err := l.Sessions(t.Context(), m.Name)
		must(t, err)
		all[m.Name] = list
	}
	return all
}

// Knows reports whether a router has heard of a VIP through a machine, and not
// taken it back, whether or not it uses that way.
func Knows(t *testing.T, l *lab.Lab, router, machine string, vip netip.Addr) bool {
	t.Helper()
	routes, err := l.BGPRoutes(t.Context(), router, lab.VIPPrefix(vip))
	must(t, err)
	at := l.Topology.MachineAddress(machine)
	return slices.ContainsFunc(routes, func(r lab.BGPRoute) bool { return r.NextHop == at.V4 || r.NextHop == at.V6 })
}

// RoutersKnow is all that the kernels of the routers reach.
func RoutersKnow(t *testing.T, l *lab.Lab) string {
	t.Helper()
	var b strings.Builder
	for _, r := range l.Topology.Routers {
		routes, err := l.KernelRoutes(t.Context(), r.Name)
		must(t, err)
		for _, route := range routes {
			if route.Protocol == "bgp" || route.Protocol == "bird" {
				fmt.Fprintln(&b, r.Name, route.Dst, route.Gateways())
			}
		}
	}
	return b.String()
}

// ToldBy waits until routers have heard of the VIPs from exactly these machines.
func ToldBy(t *testing.T, l *lab.Lab, vips []netip.Addr, machines ...string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) (wrong error) {
		for _, m := range l.Topology.Machines() {
			rack, _ := l.Topology.RackOf(m.Name)
			at := l.Topology.MachineAddress(m.Name)
			for _, vip := range vips {
				routes, err := l.BGPRoutes(ctx, rack.Routers[0], lab.VIPPrefix(vip))
				wrong = errors.Join(wrong, err)
				told := slices.ContainsFunc(routes, func(r lab.BGPRoute) bool { return r.NextHop == at.V4 || r.NextHop == at.V6 })
				if want := slices.Contains(machines, m.Name); told != want {
					wrong = errors.Join(wrong, fmt.Errorf("%s tells %s of %s: %t, want %t", m.Name, rack.Routers[0], vip, told, want))
				}
			}
		}
		return wrong
	}))
}
