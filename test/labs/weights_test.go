package labs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// weightFails are the failures of which the shares of next hops are simulated, and then made: one where nobody asks for more.
var weightFails = [][]string{{"machine/m3"}}

// allWeightFails are each machine and router, and three pairs: about three minutes.
var allWeightFails = [][]string{
	{"machine/m1"}, {"machine/m2"}, {"machine/m3"}, {"router/tor-a"}, {"router/tor-b"},
	{"machine/m1", "machine/m2"}, {"machine/m3", "router/tor-b"}, {"machine/m2", "router/tor-a"},
}

// unevenPods is how many pods of a machine are ready.
var unevenPods = map[string]int{"m1": 1, "m2": 2, "m3": 3}

// unevenShares are the percentages of the flows that a router gives to machines with unevenPods. BIRD gives all next hops of a
// route the same weight.
var unevenShares = map[string]map[string]int{
	lab.FRR:  {"m1": 17, "m2": 33, "m3": 50},
	lab.BIRD: {"m1": 33, "m2": 33, "m3": 33},
}

// staysSo is for how long shares have to stay as they were said to be.
const staysSo = 3 * time.Second

// TestWhatSimulateSaysOfWeightsIsWhatHappens holds the shares of next hops, before and after a failure, against the weights in the
// kernels of FRR and BIRD. It takes three machines of each router, so that several are left.
func TestWhatSimulateSaysOfWeightsIsWhatHappens(t *testing.T) {
	topology := lab.TwoRouters()
	topology.Racks[0].Machines = append(topology.Racks[0].Machines, lab.Machine{Name: "m3"})
	topology.HoldTime = 9 * time.Second
	l := story.Lab(t, story.BesideName(), topology)
	must(t, l.StartPlinth(t.Context(), story.WithPool(l, "advertise: {weighted: true}")))
	story.Web(t, l, "uneven", 9) // three on each machine
	vips := story.Expose(t, l, story.Local(lab.LoadBalancer("uneven", "uneven")))

	if *everyFailure {
		weightFails = allWeightFails
	}
	for _, fail := range weightFails {
		t.Run(strings.ReplaceAll(strings.Join(fail, " "), "/", "-"), func(t *testing.T) {
			must(t, lab.Within(t.Context(), noticed, func(ctx context.Context) error {
				return errors.Join(weighUnevenly(ctx, l), sharesAre(ctx, l, nil, vips, func(r lab.Router, _ netip.Addr) map[string]int { return unevenShares[r.OS] }))
			}))
			must(t, l.WaitFabric(t.Context())) // of what nothing is heard, simulate says nothing
			said, err := l.Simulate(t.Context(), fail...)
			must(t, err)
			dead := hostsOf(l, fail)
			sharesBeforeAsSaid(t, l, said, dead, vips)
			t.Cleanup(func() {
				for _, host := range dead {
					must(t, l.ReviveMachine(context.Background(), host))
				}
				must(t, l.WaitReady(context.Background(), noticed))
			})
			for _, host := range dead {
				must(t, l.KillMachine(t.Context(), host))
			}
			asSaid := func(ctx context.Context) error {
				return errors.Join(routersLost(ctx, l, dead), sharesAre(ctx, l, dead, vips, func(r lab.Router, vip netip.Addr) map[string]int {
					if _, after, changed := said.Shares(r.Name, vip); changed {
						return after
					}
					return unevenShares[r.OS]
				}))
			}
			must(t, lab.Within(t.Context(), noticed, asSaid))
			for begun := time.Now(); time.Since(begun) < staysSo; time.Sleep(200 * time.Millisecond) {
				must(t, asSaid(t.Context()))
			}
		})
	}
}

// weighUnevenly has as many pods ready on each machine as unevenPods says. A failure may have moved some.
func weighUnevenly(ctx context.Context, l *lab.Lab) error {
	pods, err := l.Pods(ctx, "uneven")
	left := maps.Clone(unevenPods)
	for _, p := range pods {
		ready := fmt.Sprint(left[p.Spec.NodeName] > 0)
		left[p.Spec.NodeName]--
		if p.Annotations[kubelet.ReadyAnnotation] != ready {
			err = errors.Join(err, l.AnnotatePod(ctx, p.Name, kubelet.ReadyAnnotation, ready))
		}
	}
	return err
}

// sharesBeforeAsSaid makes sure that a forecast begins with the shares that routers have. Each router that lives has a change where a
// machine fails, and none else.
func sharesBeforeAsSaid(t *testing.T, l *lab.Lab, said lab.Forecast, dead []string, vips []netip.Addr) {
	t.Helper()
	machines := slices.ContainsFunc(dead, func(host string) bool { return unevenPods[host] > 0 })
	for _, r := range l.Topology.Routers {
		for _, vip := range vips {
			before, _, changed := said.Shares(r.Name, vip)
			if want := machines && !slices.Contains(dead, r.Name); changed != want {
				t.Errorf("simulate says that shares of router %s for %s change: %t, want %t", r.Name, vip, changed, want)
			}
			if changed && !sameShares(before, unevenShares[r.OS]) {
				t.Errorf("router %s has the shares %v for %s, and simulate says %v", r.Name, unevenShares[r.OS], vip, before)
			}
		}
	}
}

// routersLost says which machines that live have not noticed yet that a router is dead.
func routersLost(ctx context.Context, l *lab.Lab, dead []string) (wrong error) {
	for _, m := range l.Topology.Machines() {
		if slices.Contains(dead, m.Name) {
			continue
		}
		sessions, err := l.Sessions(ctx, m.Name)
		wrong = errors.Join(wrong, err)
		for _, s := range sessions {
			if s.Up && slices.Contains(dead, s.Router) {
				wrong = errors.Join(wrong, fmt.Errorf("machine %s has a session with router %s, which is dead", m.Name, s.Router))
			}
		}
	}
	return wrong
}

// sharesAre holds the kernels of the routers that live against the shares that they are to have.
func sharesAre(ctx context.Context, l *lab.Lab, dead []string, vips []netip.Addr, want func(lab.Router, netip.Addr) map[string]int) error {
	var wrong []error
	for _, r := range l.Topology.Routers {
		if slices.Contains(dead, r.Name) {
			continue
		}
		for _, vip := range vips {
			have, err := l.Shares(ctx, r.Name, vip)
			if want := want(r, vip); err == nil && !sameShares(have, want) {
				err = fmt.Errorf("router %s (%s) has the shares %v for %s, want %v", r.Name, r.OS, have, vip, want)
			}
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// sameShares reports whether percentages are the same, but for what rounding costs: of a router's weights, and of each percentage.
func sameShares(a, b map[string]int) bool {
	for m, share := range a {
		if other, has := b[m]; !has || max(share, other)-min(share, other) > 2 {
			return false
		}
	}
	return len(a) == len(b)
}
