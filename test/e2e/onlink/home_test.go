package onlink

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

// homeName is the lab that the stories of VIPs on the link run on, one after the other: three
// machines, a phone and a laptop on one subnet, whose router speaks no BGP.
const (
	homeName = "e2e-home"
	shelf    = "shelf"
)

// bothName is a lab whose machines have routers that speak BGP, too.
const bothName = "e2e-both"

var startHome = sync.OnceValues(func() (*lab.Lab, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	topology := lab.Home(3)
	topology.ProxyMode = *proxyMode
	l, err := lab.Start(ctx, topology, lab.Options{Name: homeName, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	if _, err := l.ServeOutside(lab.HomeGateway); err != nil { // for as long as this process runs
		return nil, err
	}
	return l, l.StartPlinth(ctx, lab.Inventory(topology))
})

// home returns the home, Plinth running on it and every machine well.
func home(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := startHome()
	must(t, err)
	must(t, l.WaitReady(t.Context(), 30*time.Second))
	must(t, linksUp(t.Context(), l))
	return l
}

// outside exposes, for the length of a story, Services that lead to the gateway: whatever machine
// dies, what they lead to does not. It returns their VIPs, sorted.
func outside(t *testing.T, l *lab.Lab, names ...string) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for _, name := range names {
		t.Cleanup(func() {
			if err := l.RemoveOutside(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
		vips, err := l.ExposeOutside(t.Context(), lab.LoadBalancer(name, ""), l.Topology.RouterAddress(lab.HomeGateway, shelf))
		must(t, err)
		all = append(all, vips...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	owned(t, l, all)
	for _, vip := range all {
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	return all
}

// owned waits until one machine answers for each VIP, and returns which.
func owned(t *testing.T, l *lab.Lab, vips []netip.Addr) map[netip.Addr]string {
	t.Helper()
	owners := map[netip.Addr]string{}
	for _, vip := range vips {
		owner, err := l.WaitOwner(t.Context(), lab.Laptop, vip)
		must(t, err)
		owners[vip] = owner
	}
	return owners
}

// stays makes sure that the owners of VIPs are what they were.
func stays(t *testing.T, l *lab.Lab, was map[netip.Addr]string) {
	t.Helper()
	if now := owned(t, l, slices.Collect(maps.Keys(was))); !maps.Equal(was, now) {
		t.Errorf("the owners were %v and are %v", was, now)
	}
}

// packets sends a thousand a second from the phone to a VIP for the length of a story. Its report
// begins once all is well.
func packets(t *testing.T, l *lab.Lab, vip netip.Addr) *lab.Prober {
	t.Helper()
	p, err := l.ProbeUDPFrom(t.Context(), lab.Phone, net.JoinHostPort(vip.String(), "7"), 1000)
	must(t, err)
	t.Cleanup(func() { p.Stop() })
	must(t, p.Steady(t.Context(), time.Second))
	p.Forget()
	return p
}

// withinGap makes sure that one row of packets was lost at most, and how long it was, but for what
// this machine itself stood still.
func withinGap(t *testing.T, what string, p *lab.Prober, most time.Duration) {
	t.Helper()
	r := p.Stop()
	still := p.Stalled(r.FirstLoss, r.LastLoss)
	t.Logf("%s: %s; this machine stood still for %s", what, r, still)
	if r.Sent == 0 || r.Longest-still > most {
		t.Errorf("%s: a gap of %s, want %s at most", what, r.Longest-still, most)
	}
}

// powerless cuts a machine's power until the story ends, or boots it before. Its programs do not
// live on.
func powerless(t *testing.T, l *lab.Lab, machine string) (boot func()) {
	t.Helper()
	boot = sync.OnceFunc(func() { poweredOn(t, l, machine) })
	t.Cleanup(boot)
	must(t, l.KillMachine(t.Context(), machine))
	return boot
}

// poweredOn boots a machine that has lost its power.
func poweredOn(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	ctx := context.Background()
	must(t, l.StopAgent(ctx, machine, syscall.SIGKILL))
	must(t, l.ReviveMachine(ctx, machine))
	must(t, l.StartAgentAgain(machine))
}

// linksUp waits until every machine hears all others of the home.
func linksUp(ctx context.Context, l *lab.Lab) error {
	return lab.Within(ctx, 20*time.Second, func(ctx context.Context) error {
		for _, m := range l.Topology.Machines() {
			links, err := l.Links(ctx, m.Name)
			if err != nil {
				return err
			}
			if len(links) == 0 {
				return fmt.Errorf("%s has no link", m.Name)
			}
			for _, k := range links {
				for _, other := range k.Machines {
					if other.Standing != "up" {
						return fmt.Errorf("to %s, %s is %s on %s", m.Name, other.Name, other.Standing, k.Subnet)
					}
				}
			}
		}
		return nil
	})
}

func local(s *corev1.Service) *corev1.Service {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	return s
}
