package story

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

// Shelf is the one rack of a home.
const Shelf = "shelf"

var startHome = sync.OnceValues(func() (*lab.Lab, error) {
	topology := lab.Home(3)
	topology.ProxyMode = *proxyMode
	return begin(homeName(), topology, func(l *lab.Lab) error {
		_, err := l.ServeOutside(lab.HomeGateway) // for as long as this process runs
		return err
	})
})

// Home returns a home: three machines, a phone and a laptop on one subnet, whose router speaks no BGP. Plinth
// runs on it and every machine is well.
func Home(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := startHome()
	must(t, err)
	must(t, l.WaitReady(t.Context(), 30*time.Second))
	must(t, LinksUp(t.Context(), l))
	return l
}

// Outside exposes, for the length of a story, Services that lead to the gateway: whatever machine
// dies, what they lead to does not. It returns their VIPs, sorted.
func Outside(t *testing.T, l *lab.Lab, names ...string) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for _, name := range names {
		t.Cleanup(func() {
			if err := l.RemoveOutside(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
		vips, err := l.ExposeOutside(t.Context(), lab.LoadBalancer(name, ""), l.Topology.RouterAddress(lab.HomeGateway, Shelf))
		must(t, err)
		all = append(all, vips...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	Owned(t, l, all)
	for _, vip := range all {
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	return all
}

// Owned waits until one machine answers for each VIP, and returns which.
func Owned(t *testing.T, l *lab.Lab, vips []netip.Addr) map[netip.Addr]string {
	t.Helper()
	owners := map[netip.Addr]string{}
	for _, vip := range vips {
		owner, err := l.WaitOwner(t.Context(), lab.Laptop, vip)
		must(t, err)
		owners[vip] = owner
	}
	return owners
}

// Stays makes sure that the owners of VIPs are what they were.
func Stays(t *testing.T, l *lab.Lab, was map[netip.Addr]string) {
	t.Helper()
	if now := Owned(t, l, slices.Collect(maps.Keys(was))); !maps.Equal(was, now) {
		t.Errorf("the owners were %v and are %v", was, now)
	}
}

// Packets sends a thousand a second from the phone to a VIP for the length of a story. Its report
// begins once all is well.
func Packets(t *testing.T, l *lab.Lab, vip netip.Addr) *lab.Prober {
	t.Helper()
	p, err := l.ProbeUDPFrom(t.Context(), lab.Phone, net.JoinHostPort(vip.String(), "7"), 1000)
	must(t, err)
	t.Cleanup(func() { p.Stop() })
	must(t, p.Steady(t.Context(), time.Second))
	p.Forget()
	return p
}

// Powerless cuts a machine's power until the story ends, or boots it before. Its programs do not
// live on.
func Powerless(t *testing.T, l *lab.Lab, machine string) (boot func()) {
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

// LinksUp waits until every machine hears all others of the home.
func LinksUp(ctx context.Context, l *lab.Lab) error {
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

// Local has each machine serve its own pods alone.
func Local(s *corev1.Service) *corev1.Service {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	return s
}

// IPv4Alone has a Service ask for that family alone.
func IPv4Alone(s *corev1.Service) *corev1.Service {
	single := corev1.IPFamilyPolicySingleStack
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPv4Protocol}
	return s
}
