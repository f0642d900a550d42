package labs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// fails are the failures that are simulated, and then made: one of a router and one of a machine
// where nobody asks for more.
var fails = [][]string{{"router/tor-r1"}, {"machine/w1"}}

// allFails are each machine, router and rack, and ten pairs: about twenty minutes.
var allFails = [][]string{
	{"machine/w1"}, {"machine/w2"}, {"machine/w3"}, {"machine/w4"},
	{"router/tor-r1"}, {"router/tor-r2"}, {"rack/r1"}, {"rack/r2"},
	{"machine/w1", "machine/w2"}, {"machine/w1", "machine/w3"}, {"machine/w2", "machine/w4"}, {"machine/w3", "machine/w4"},
	{"machine/w1", "router/tor-r1"}, {"machine/w1", "router/tor-r2"}, {"machine/w3", "router/tor-r1"}, {"machine/w4", "router/tor-r2"},
	{"router/tor-r1", "router/tor-r2"}, {"rack/r1", "machine/w3"},
}

// noticed is how long Kubernetes takes to hear that a machine is dead, or is back.
const noticed = time.Minute

// TestWhatSimulateSaysIsWhatHappens: the tables of the routers, a client and pods agree with every
// line.
func TestWhatSimulateSaysIsWhatHappens(t *testing.T) {
	l := story.Shared(t)
	story.Webs(t, l, lab.Web{Name: "everywhere", Everywhere: true})
	story.Webs(t, l, lab.Web{Name: "single", Replicas: 1})
	local := lab.LoadBalancer("everywhere", "everywhere")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := story.Expose(t, l, local)
	single := lab.LoadBalancer("single", "single")
	single.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	alone := story.Expose(t, l, single)
	all := slices.Concat(vips, alone)

	if *everyFailure {
		fails = allFails
	}
	for _, fail := range fails {
		t.Run(strings.ReplaceAll(strings.Join(fail, " "), "/", "-"), func(t *testing.T) {
			// Now, when all sessions are up: until then a router that was away has what it had, and loses it for a moment.
			announcedBy(t, l, vips, "everywhere")
			announcedBy(t, l, alone, "single")
			before := hopsBefore(t, l, all) // a pod may have moved since the last failure
			said, err := l.Simulate(t.Context(), fail...)
			must(t, err)
			cutByRouter(t, said, fail)
			dead := hostsOf(l, fail)
			t.Cleanup(func() {
				for _, host := range dead {
					must(t, l.ReviveMachine(context.Background(), host))
				}
				must(t, l.WaitReady(context.Background(), noticed)) // of what nothing is heard, simulate says nothing
				announcedBy(t, l, vips, "everywhere")
				announcedBy(t, l, alone, "single")
				must(t, l.WaitFabric(context.Background())) // before, it may be what a machine said that was dead since
			})
			for _, host := range dead {
				must(t, l.KillMachine(t.Context(), host))
			}
			must(t, lab.Within(t.Context(), noticed, func(ctx context.Context) error {
				return errors.Join(asSaid(ctx, l, said, dead, before, all), leftAsSaid(ctx, l, said, dead, before, all), clientAgrees(ctx, l, said, dead, all), podsAgree(ctx, l, said, dead))
			}))
		})
	}
}

// cutByRouter makes sure that ways that a forecast lacks are said to be a router's, and that it lacks some where one fails.
func cutByRouter(t *testing.T, said lab.Forecast, fail []string) {
	t.Helper()
	cut := 0
	for _, p := range said.Pods {
		for _, way := range p.After {
			if way.Kind != "unreachable" {
				continue
			}
			if cut++; way.Reason != "RouterFailed" {
				t.Errorf("pods of %s do not reach those of %s for %s, want RouterFailed", p.From, p.To, way.Reason)
			}
		}
	}
	if routers := slices.ContainsFunc(fail, func(f string) bool { return strings.HasPrefix(f, "router/") }); routers != (cut > 0) {
		t.Errorf("%d ways of pods are cut where %v fail", cut, fail)
	}
}

// announcedBy waits until exactly the machines with pods of web servers announce VIPs.
func announcedBy(t *testing.T, l *lab.Lab, vips []netip.Addr, web string) {
	t.Helper()
	must(t, lab.Within(context.Background(), noticed, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, web)
		if err != nil {
			return err
		}
		var machines []string
		for _, p := range pods {
			machines = append(machines, p.Spec.NodeName)
		}
		for _, vip := range vips {
			for _, r := range l.Topology.Routers {
				have, err := l.NextHops(ctx, r.Name, lab.VIPPrefix(vip))
				want := l.LocalHops(r.Name, vip, machines)
				have = slices.DeleteFunc(have, func(a netip.Addr) bool { return !ofMachine(l, r.Name, vip, a) })
				if err != nil {
					return err
				}
				if !slices.Equal(have, want) {
					return fmt.Errorf("router %s has %v for %s, and the pods are on %v", r.Name, have, vip, machines)
				}
			}
		}
		return nil
	}))
}

// hostsOf are the hosts that fail.
func hostsOf(l *lab.Lab, fail []string) (hosts []string) {
	for _, f := range fail {
		kind, name, _ := strings.Cut(f, "/")
		if kind != "rack" {
			hosts = append(hosts, name)
			continue
		}
		for _, r := range l.Topology.Racks {
			if r.Name == name {
				for _, m := range r.Machines {
					hosts = append(hosts, m.Name)
				}
				hosts = append(hosts, r.Routers...)
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

type hopKey struct {
	router string
	vip    netip.Addr
}

// hopsBefore are the machines that each router has for each VIP while nothing has failed.
func hopsBefore(t *testing.T, l *lab.Lab, vips []netip.Addr) map[hopKey][]string {
	t.Helper()
	out := map[hopKey][]string{}
	for _, r := range l.Topology.Routers {
		for _, vip := range vips {
			machines, err := ownMachines(t.Context(), l, r.Name, vip)
			must(t, err)
			if len(machines) > 0 {
				out[hopKey{r.Name, vip}] = machines
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no router has a machine for any VIP: this story would say nothing")
	}
	return out
}

// ownMachines are the machines of a router's racks that its kernel has as next hops of a VIP.
func ownMachines(ctx context.Context, l *lab.Lab, router string, vip netip.Addr) (machines []string, err error) {
	have, err := l.NextHops(ctx, router, lab.VIPPrefix(vip))
	for _, m := range l.Topology.Machines() {
		if hops := l.LocalHops(router, vip, []string{m.Name}); len(hops) == 1 && slices.Contains(have, hops[0]) {
			machines = append(machines, m.Name)
		}
	}
	return machines, err
}

// leftAsSaid holds the machine and the router that are the last ones for a VIP in the kernels of the routers that live against a
// forecast.
func leftAsSaid(ctx context.Context, l *lab.Lab, said lab.Forecast, dead []string, before map[hopKey][]string, vips []netip.Addr) error {
	var wrong []error
	for _, vip := range vips {
		var machinesBefore, routersBefore, machines, routers []string
		for _, r := range l.Topology.Routers {
			if was := before[hopKey{r.Name, vip}]; len(was) > 0 {
				machinesBefore, routersBefore = append(machinesBefore, was...), append(routersBefore, r.Name)
			}
			if slices.Contains(dead, r.Name) {
				continue
			}
			is, err := ownMachines(ctx, l, r.Name, vip)
			wrong = append(wrong, err)
			if len(is) > 0 {
				machines, routers = append(machines, is...), append(routers, r.Name)
			}
		}
		machine, router := said.LeftWith(vip)
		if last := lastOf(machinesBefore, machines); last != machine {
			wrong = append(wrong, fmt.Errorf("%s is left with machine %q, and simulate says %q", vip, last, machine))
		}
		if last := lastOf(routersBefore, routers); last != router {
			wrong = append(wrong, fmt.Errorf("%s is left with router %q, and simulate says %q", vip, last, router))
		}
	}
	return errors.Join(wrong...)
}

// lastOf returns the one that is left of several; empty: there are more, or none, or was one before.
func lastOf(before, now []string) string {
	before, now = slices.Compact(slices.Sorted(slices.Values(before))), slices.Compact(slices.Sorted(slices.Values(now)))
	if len(before) > 1 && len(now) == 1 {
		return now[0]
	}
	return ""
}

// asSaid holds the kernels of the routers that live against a forecast. A router without a machine of
// its own for a VIP may have it from another router.
func asSaid(ctx context.Context, l *lab.Lab, said lab.Forecast, dead []string, before map[hopKey][]string, vips []netip.Addr) error {
	var wrong []error
	for _, r := range l.Topology.Routers {
		if slices.Contains(dead, r.Name) {
			continue
		}
		for _, vip := range vips {
			want := l.LocalHops(r.Name, vip, said.Hops(r.Name, vip, before[hopKey{r.Name, vip}]))
			have, err := l.NextHops(ctx, r.Name, lab.VIPPrefix(vip))
			have = slices.DeleteFunc(have, func(a netip.Addr) bool { return !ofMachine(l, r.Name, vip, a) })
			if err == nil && !slices.Equal(have, want) {
				err = fmt.Errorf("router %s has the machines %v for %s, and simulate says %v", r.Name, have, vip, want)
			}
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

func ofMachine(l *lab.Lab, router string, vip, hop netip.Addr) bool {
	for _, m := range l.Topology.Machines() {
		if slices.Contains(l.LocalHops(router, vip, []string{m.Name}), hop) {
			return true
		}
	}
	return false
}

// webTarget is the port that pods of web servers listen on.
const webTarget = 8080

// tries is how many requests have to agree: a flow each, so that every next hop gets some.
const tries = 10

// clientAgrees holds what a client gets against a forecast. It sends its flows to every router in turn,
// and does not know of a dead one: then some of them have to get through.
func clientAgrees(ctx context.Context, l *lab.Lab, said lab.Forecast, dead []string, vips []netip.Addr) error {
	least := tries
	if slices.ContainsFunc(l.Topology.Routers, func(r lab.Router) bool { return slices.Contains(dead, r.Name) }) {
		least = 1
	}
	var wrong []error
	for _, vip := range vips {
		answers, last := 0, error(nil)
		for range tries {
			if _, err := l.Get(ctx, lab.URL(vip, lab.WebPort)); err != nil {
				last = err
			} else {
				answers++
			}
		}
		if lost := said.Loses(vip); lost && answers > 0 || !lost && answers < least {
			wrong = append(wrong, fmt.Errorf("%s answers %d of %d requests (%v), and simulate says that it is lost: %t", vip, answers, tries, last, lost))
		}
	}
	return errors.Join(wrong...)
}

// podsAgree has a pod of every machine that lives ask one of every other. What comes back takes
// the way of the reverse.
func podsAgree(ctx context.Context, l *lab.Lab, said lab.Forecast, dead []string) error {
	pods, err := l.Pods(ctx, "everywhere")
	wrong := []error{err}
	for _, from := range pods {
		for _, to := range pods {
			a, b := from.Spec.NodeName, to.Spec.NodeName
			if a == b || slices.Contains(dead, a) || slices.Contains(dead, b) {
				continue
			}
			rackA, _ := l.Topology.RackOf(a)
			rackB, _ := l.Topology.RackOf(b)
			cut := said.Cut(rackA.Name, rackB.Name) || said.Cut(rackB.Name, rackA.Name)
			for _, ip := range to.Status.PodIPs {
				addr, err := netip.ParseAddr(ip.IP)
				if err != nil {
					return err
				}
				if _, err := l.GetFromPod(ctx, a, from.Namespace, from.Name, lab.URL(addr, webTarget)); (err != nil) != cut {
					wrong = append(wrong, fmt.Errorf("pod of %s to pod of %s (%s): %v, and simulate says that it is cut: %t", a, b, ip.IP, err, cut))
				}
			}
		}
	}
	return errors.Join(wrong...)
}
