package vip

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/claim"
)

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete"}

// dies has the process be able to write so often, and never again. It returns what counts its writes.
func (h *held) dies(after int) (count *int) {
	count = new(int)
	fails := func(clienttesting.Action) (bool, runtime.Object, error) {
		*count++
		return *count > after, nil, errors.New("the leader is dead")
	}
	for _, verb := range writes {
		h.client.PrependReactor(verb, "*", fails)
	}
	return count
}

// successor leads next: it knows what the API server has, and nothing else.
func (h *held) successor() *held {
	h.t.Helper()
	h.client.ReactionChain = h.client.ReactionChain[len(writes):] // those of dies
	next := &held{t: h.t, addr: h.addr, client: h.client, svc: h.svc, edits: h.edits}
	next.controls(h.options.InForce.Get())
	next.reaches()
	next.caches()
	for _, begin := range []func() error{
		func() error { return next.load(h.t.Context()) }, func() error { return next.setPools(h.t.Context()) }, func() error { return next.adopt(h.t.Context()) },
	} {
		if err := begin(); err != nil {
			h.t.Fatal(err)
		}
	}
	close(next.loaded)
	close(next.ready)
	return next
}

// caches has the informer's cache have the Services that the API server has, and tell what changed.
func (h *held) caches() {
	h.t.Helper()
	list, err := h.client.CoreV1().Services("").List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range list.Items {
		now := &list.Items[i]
		before, known, _ := h.known.Get(now)
		if err := h.known.Update(now); err != nil {
			h.t.Fatal(err)
		}
		switch {
		case !known:
			h.serviceCame(now)
		case !apiequality.Semantic.DeepEqual(before, now):
			h.serviceChanged(before, now)
		}
	}
}

// leadsUntilDone does the work on all Services until nothing changes any more.
func (h *held) leadsUntilDone(names ...string) {
	h.t.Helper()
	for last, rounds := "", 0; ; rounds++ {
		for _, name := range names {
			h.caches()
			_ = h.reconcile(h.t.Context(), "d/"+name) // a dead leader cannot
			_, _ = h.released.write(h.t.Context())
		}
		is := h.world()
		if is == last {
			return
		}
		if rounds == 20 {
			h.t.Fatalf("it does not come to an end:\n%s\nthen\n%s", last, is)
		}
		last = is
	}
}

// world is what the API server has of VIPs: claims, statuses and quarantine. Times are left out.
func (h *held) world() string {
	h.t.Helper()
	var lines []string
	claims, err := h.client.NetworkingV1().IPAddresses().List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	claimed := map[netip.Addr]bool{} // what a predecessor wrote down of one stays there for its time
	for i := range claims.Items {
		o, _ := claim.Read(&claims.Items[i])
		claimed[o.Addr] = true
		lines = append(lines, fmt.Sprintf("claim %s of pool %s: %v, parent %s", o.Addr, o.Pool, o.Holders, o.ParentUID))
	}
	services, err := h.client.CoreV1().Services("").List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, svc := range services.Items {
		line := fmt.Sprintf("service %s: %v, finalizers %v", svc.Name, vipsOf(&svc), svc.Finalizers)
		if c := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated); c != nil {
			line += fmt.Sprintf(", %s %s: %s", c.Status, c.Reason, c.Message)
		}
		lines = append(lines, line)
	}
	released, err := h.claims.ReadReleased(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, q := range released.Quarantined {
		if !claimed[q.Addr] {
			lines = append(lines, fmt.Sprintf("quarantine %s for %s", q.Addr, q.Owner))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// vipsOf are the addresses that a status shows, sorted.
func vipsOf(svc *v1.Service) (all []string) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		all = append(all, i.IP)
	}
	slices.Sort(all)
	return all
}

// changed has a Service of the API server be another.
func (h *held) changed(name string, change func(*v1.Service)) {
	h.t.Helper()
	svc := h.lives(name)
	change(svc)
	h.edits++
	// The fake API server keeps no managed fields, which say when it was edited.
	svc.CreationTimestamp = metav1.Time{Time: noon.Add(time.Duration(h.edits) * time.Second)}
	h.edited(svc)
}

func asking(ips string) func(*v1.Service) {
	return func(svc *v1.Service) { svc.Annotations = map[string]string{"plinth.dev/ips": ips} }
}

// halves are changes of two Services, of which the first two share an address before.
var halves = map[string]func(*held){
	"nothing changes":                  func(*held) {},
	"one asks for another":             func(h *held) { h.changed("a", asking("192.0.2.2")) },
	"one asks for any, then the other": func(h *held) { h.changed("a", asking("")); h.leadsUntilDone("a", "b"); h.changed("b", asking("")) },
	"both ask for one alone":           func(h *held) { h.changed("a", asking("192.0.2.1")); h.changed("b", asking("192.0.2.1")) },
	"one is deleted":                   func(h *held) { h.changed("a", goneWith("example.com/hold")) },
	"both are deleted": func(h *held) {
		h.changed("a", goneWith("example.com/hold"))
		h.changed("b", goneWith("example.com/hold"))
	},
	"one is no load balancer": func(h *held) { h.changed("a", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP }) },
	"one is another balancer's": func(h *held) {
		h.changed("a", func(svc *v1.Service) { class := "example.com/x"; svc.Spec.LoadBalancerClass = &class })
	},
	"one asks for both families": func(h *held) {
		h.changed("a", func(svc *v1.Service) {
			asking("")(svc)
			dual(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)(svc)
		})
	},
	"one asks for what the other has left": func(h *held) {
		h.changed("b", asking("192.0.2.2"))
		h.leadsUntilDone("a", "b")
		h.changed("a", goneWith("example.com/hold"))
		h.changed("b", asking("192.0.2.0"))
	},
	"one comes again once the other is gone": func(h *held) {
		h.changed("b", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
		h.leadsUntilDone("a", "b")
		h.changed("a", goneWith("example.com/hold"))
		h.changed("b", func(svc *v1.Service) { asking("")(svc); svc.Spec.Type = v1.ServiceTypeLoadBalancer })
	},
	"they change places": func(h *held) { h.changed("a", asking("192.0.2.3")); h.changed("b", asking("192.0.2.2")) },
}

func goneWith(finalizer string) func(*v1.Service) {
	return func(svc *v1.Service) {
		svc.DeletionTimestamp = &metav1.Time{Time: noon}
		svc.Finalizers = append(svc.Finalizers, finalizer)
	}
}

// TestALeaderThatDiesAfterAnyWriteLeavesWhatItsSuccessorEndsWith is the law of claims and statuses: who leads after a process that
// died between any two writes ends where one ends that never died. Where several Services are edited at once that share an address, who is
// looked at first decides which of them moves, in a leader that lives as well: they are edited one after the other here.
func TestALeaderThatDiesAfterAnyWriteLeavesWhatItsSuccessorEndsWith(t *testing.T) {
	for _, name := range append(slices.Sorted(maps.Keys(halves)), "they come") {
		t.Run(name, func(t *testing.T) {
			// run has a leader die after so many writes, and returns what its successor ends with.
			run := func(after int) (world string, written int) {
				h := newHeldWith(t, `{name: public, addresses: [192.0.2.0/30, "2001:db8::/126"]}`)
				if change, known := halves[name]; known {
					h.leadsUntilDone("a", "b")
					change(h)
				}
				count := h.dies(after)
				h.leadsUntilDone("a", "b")
				next := h.successor()
				next.leadsUntilDone("a", "b")
				return next.world(), *count
			}
			const never = 1 << 20
			want, all := run(never)
			for after := range all {
				if got, _ := run(after); got != want {
					t.Fatalf("after write %d of %d:\n%s\nand not\n%s", after, all, got, want)
				}
			}
			t.Logf("%d writes", all)
		})
	}
}
