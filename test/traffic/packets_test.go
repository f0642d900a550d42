package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// packetRate is how many packets a second the client sends to each VIP.
const packetRate = 1000

// flood sends packets to every VIP for the length of a story; settle ends it and
// says how many were lost of each.
func flood(t *testing.T, l *lab.Lab, vips []netip.Addr) (settle func() map[netip.Addr]lab.Report) {
	t.Helper()
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		p, err := l.ProbeUDP(t.Context(), net.JoinHostPort(vip.String(), "7"), packetRate)
		must(t, err)
		probes[vip] = p
	}
	return func() map[netip.Addr]lab.Report {
		reports := map[netip.Addr]lab.Report{}
		for vip, p := range probes {
			reports[vip] = p.Stop()
			t.Logf("%s: %s", vip, reports[vip])
		}
		return reports
	}
}

func TestNoPacketIsLostWhileEveryAgentIsRestartedAtOnce(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "restart")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		// All at once: of one machine's routes a router that drops them would go on to
		// another's, and nobody would notice.
		settle := flood(t, l, vips)
		each := func(do func(machine string) error) {
			for _, m := range l.Topology.Machines() {
				must(t, do(m.Name))
			}
		}
		each(func(m string) error { return l.StopAgent(t.Context(), m, s) })
		each(func(m string) error { return l.StartAgent(t.Context(), m) })
		each(func(m string) error { return l.WaitSessions(t.Context(), m) })
		// A router that did not believe that all was said again would drop the rest now.
		story.PauseFor(t, 2*time.Second)
		for vip, r := range settle() {
			if r.Lost > 0 || r.Sent < 2*packetRate {
				t.Errorf("%s: every agent was restarted after %v: %s", vip, s, r)
			}
		}
	}
	must(t, l.WaitFabric(t.Context()))
	story.Announced(t, l, vips)
}

func TestMaintenanceMovesNewFlowsBeforeItWithdrawsAndLosesNoPacket(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "drain")
	leaving := map[string]string{"w1": "tor-r1", "w3": "tor-r2"} // one behind FRR, one behind BIRD
	usual := lab.Inventory(l.Topology)
	maintenance := usual
	for m := range leaving {
		maintenance = strings.Replace(maintenance, "{name: "+m+",", "{name: "+m+", state: maintenance,", 1)
	}
	settle := flood(t, l, vips)
	t.Cleanup(func() {
		if err := l.ApplyInventory(context.Background(), usual); err != nil {
			t.Error(err)
		}
	})
	must(t, l.ApplyInventoryWithLosses(t.Context(), maintenance)) // half of the machines

	// Both routers still know the way through the machine, and none takes it.
	story.Announced(t, l, vips, "w2", "w4")
	for m, r := range leaving {
		for _, vip := range vips {
			if !story.Knows(t, l, r, m, vip) {
				t.Errorf("%s has forgotten %s through %s before the drain time is over", r, vip, m)
			}
		}
	}
	for range 40 {
		a, err := l.Get(t.Context(), lab.URL(vips[0], lab.WebPort))
		must(t, err)
		if leaving[a.Node] != "" {
			t.Errorf("a new connection was answered on %s", a.Node)
		}
	}
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		var wrong []error
		for m, r := range leaving {
			status, err := rulesOf(ctx, l, m)
			wrong = append(wrong, err, hasAll(status.Refusals, vips, "MachineDrained"))
			for _, vip := range vips {
				if story.Knows(t, l, r, m, vip) {
					wrong = append(wrong, fmt.Errorf("%s still knows %s through %s", r, vip, m))
				}
			}
		}
		return errors.Join(wrong...)
	}))
	must(t, l.ApplyInventory(t.Context(), usual))
	story.Announced(t, l, vips)
	for vip, r := range settle() {
		if r.Lost > 0 {
			t.Errorf("%s: two machines went into maintenance and came back: %s", vip, r)
		}
	}
	must(t, l.WaitFabric(t.Context()))
}
