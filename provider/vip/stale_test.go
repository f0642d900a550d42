package vip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// tells has the API server and the cache say of a Service what a test wants.
func (h *held) tells(svc *v1.Service) {
	h.t.Helper()
	if err := h.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("services"), svc, svc.Namespace); err != nil {
		h.t.Fatal(err)
	}
	if err := h.known.Update(svc); err != nil {
		h.t.Fatal(err)
	}
}

// lives returns a Service as the API server has it.
func (h *held) lives(name string) *v1.Service {
	h.t.Helper()
	svc, err := h.client.CoreV1().Services("d").Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return svc
}

// showing is a copy of a Service whose status says that it has these VIPs.
func showing(svc *v1.Service, vips ...string) *v1.Service {
	svc = svc.DeepCopy()
	d := ipam.Decision{}
	for _, ip := range vips {
		d.VIPs = append(d.VIPs, ipam.Assignment{Addr: netip.MustParseAddr(ip)})
	}
	svc.Status.LoadBalancer.Ingress = ingressOf(d.Addrs())
	svc.Status.Conditions = []metav1.Condition{conditionOf(svc, d, noon)}
	return svc
}

func leaving(svc *v1.Service) *v1.Service {
	svc = svc.DeepCopy()
	svc.DeletionTimestamp = &metav1.Time{Time: noon}
	svc.Finalizers = []string{"example.com/hold"}
	return svc
}

func TestVIPIsHeldUntilTheStatusOfItsServiceIsCleared(t *testing.T) {
	class, foreign := lb.LoadBalancerClass, "example.com/x"
	for name, change := range map[string]func(*v1.Service){
		"being deleted":             func(*v1.Service) {},
		"of Plinth's class":         func(svc *v1.Service) { svc.Spec.LoadBalancerClass = &class },
		"of another class by now":   func(svc *v1.Service) { svc.Spec.LoadBalancerClass, svc.DeletionTimestamp = &foreign, nil },
		"no load balancer any more": func(svc *v1.Service) { svc.Spec.Type, svc.DeletionTimestamp = v1.ServiceTypeClusterIP, nil },
		"with another balancer's VIP": func(svc *v1.Service) {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: "198.51.100.9"})
		},
		"with another balancer's VIP and finalizer": func(svc *v1.Service) {
			svc.Spec.LoadBalancerClass, svc.DeletionTimestamp = &foreign, nil
			svc.Finalizers = append(svc.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: "198.51.100.9"})
		},
		"with another balancer's VIP and Plinth's finalizer": func(svc *v1.Service) {
			svc.Spec.LoadBalancerClass = &foreign
			svc.Finalizers = append(svc.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: "198.51.100.9"})
			svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "plinth-cloud-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{".":{},"v:\"service.kubernetes.io/load-balancer-cleanup\"":{}}}}`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			h.settled(0)
			svc := leaving(showing(h.svc[0], h.addr.String()))
			change(svc)
			h.tells(svc)
			h.failing(1, "patch", "services")
			if err := h.reconcile(t.Context(), "d/a"); err == nil {
				t.Error("that its status could not be cleared is no error")
			}
			h.agree(h.key(0))
			if err := h.reconcile(t.Context(), "d/a"); err != nil {
				t.Fatal(err)
			}
			if held := h.state.Holds(h.key(0)); len(held) > 0 {
				t.Errorf("it still holds %v", held)
			}
			now := h.lives("a")
			if len(showsIn(now, []netip.Addr{h.addr})) > 0 || meta.FindStatusCondition(now.Status.Conditions, lb.VIPAllocated) != nil {
				t.Errorf("its status says %v", now.Status)
			}
			if want := len(svc.Status.LoadBalancer.Ingress) - 1; len(now.Status.LoadBalancer.Ingress) != want {
				t.Errorf("its status has %v, want %d of another balancer's", now.Status.LoadBalancer.Ingress, want)
			}
			finalizers := svc.Finalizers
			if len(svc.ManagedFields) > 0 { // they say that Plinth put the second one on
				finalizers = finalizers[:1]
			}
			if !slices.Equal(now.Finalizers, finalizers) {
				t.Errorf("its finalizers are %v, want %v", now.Finalizers, finalizers)
			}
		})
	}
}

func TestDeletionClearsTheStatusAndTakesTheFinalizerOffFirst(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	svc := leaving(showing(h.svc[0], h.addr.String()))
	svc.Finalizers = append(svc.Finalizers, "service.kubernetes.io/load-balancer-cleanup")
	h.tells(svc)
	conflicts := 2 // somebody else changes it meanwhile, which is not for an Event
	h.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(v1.Resource("services"), "a", errOtherService)
	})
	h.failing(1, "patch", "services")
	if err := h.reconcile(t.Context(), "d/a"); err == nil {
		t.Error("that its status could not be cleared is no error")
	}
	h.agree(h.key(0))
	if err := h.reconcile(t.Context(), "d/a"); err != nil || conflicts >= 0 {
		t.Fatal(err, conflicts)
	}
	if held, now := h.state.Holds(h.key(0)), h.lives("a"); len(held) > 0 || len(now.Status.LoadBalancer.Ingress) > 0 || slices.Contains(now.Finalizers, "service.kubernetes.io/load-balancer-cleanup") {
		t.Errorf("it holds %v, its status says %v and its finalizers are %v", held, now.Status, now.Finalizers)
	}
}

func TestServiceThatMovesHoldsItsOldAddressUntilItsStatusSaysTheNewOne(t *testing.T) {
	h := newHeld(t)
	h.cluster.Recorder = record.NewFakeRecorder(9)
	h.settled(0)
	svc := showing(h.svc[0], h.addr.String())
	svc.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.1"}
	h.tells(svc)
	d, err := h.assign(t.Context(), svc)
	if err != nil || !slices.Equal(d.Addrs(), []netip.Addr{netip.MustParseAddr("192.0.2.1")}) {
		t.Fatal(d, err)
	}
	if held := h.state.Holds(h.key(0)); len(held) != 2 {
		t.Errorf("it holds %v while its status shows the old one", held)
	}
	if !h.state.HoldsMore(h.key(0)) {
		t.Error("nobody would look when its status is written")
	}
	if _, err := h.writeOwnStatus(t.Context(), svc, d, announcement{}); err != nil {
		t.Fatal(err)
	}
	if err := h.known.Update(h.lives("a")); err != nil {
		t.Fatal(err)
	}
	h.queued()
	if h.serviceChanged(svc, h.lives("a")); !slices.Contains(h.queued(), "d/a") {
		t.Error("nobody looks once its status is written")
	}
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	if held := h.state.Holds(h.key(0)); !slices.Equal(held, d.Addrs()) || h.state.HoldsMore(h.key(0)) {
		t.Errorf("it holds %v, want %v", held, d.Addrs())
	}
}

func TestStatusIsNotWrittenByADecisionThatAnotherFollowed(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	earlier := ipam.Decision{VIPs: []ipam.Assignment{{Addr: netip.MustParseAddr("192.0.2.2"), Pool: "public"}}}
	h.client.ClearActions()
	if wrote, err := h.writeStatus(t.Context(), h.svc[0], earlier, announcement{}); wrote || err != nil {
		t.Errorf("wrote %v, %v", wrote, err)
	}
	if slices.ContainsFunc(h.client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "patch" }) {
		t.Errorf("a status was written: %v", h.client.Actions())
	}
}

// TestNobodyGetsAnAddressThatAStaleStatusShows has the one address of the pool in the
// status of a Service that does not hold it.
func TestNobodyGetsAnAddressThatAStaleStatusShows(t *testing.T) {
	other := "example.com/x"
	for name, tt := range map[string]struct {
		svc    func(*v1.Service) *v1.Service
		clears bool // it is Plinth's to clear
	}{
		"of a Service that is being deleted": {leaving, true},
		"of a Service that another serves": {func(svc *v1.Service) *v1.Service {
			svc.Spec.LoadBalancerClass, svc.Status.Conditions = &other, nil
			return svc
		}, false},
		"of a Service that may not have it": {func(svc *v1.Service) *v1.Service {
			svc.Labels = nil
			return svc
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeldWith(t, "{name: public, addresses: [192.0.2.0/32], serviceSelector: {matchLabels: {tier: web}}}")
			h.svc[0].Labels, h.svc[1].Labels = map[string]string{"tier": "web"}, map[string]string{"tier": "web"}
			h.cluster.Recorder = record.NewFakeRecorder(9)
			shows := showing(h.svc[0], h.addr.String())
			delete(shows.Annotations, "plinth.dev/ips")
			shows = tt.svc(shows)
			h.tells(shows)
			if err := h.adopt(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d, err := h.assign(t.Context(), h.svc[1]); err != nil || len(d.VIPs) > 0 {
				t.Errorf("another gets %v, %v", d, err)
			}
			if !slices.Contains(h.queued(), "d/a") {
				t.Error("nobody looks at it")
			}
			if err := h.reconcile(t.Context(), "d/a"); err != nil {
				t.Fatal(err)
			}
			cleared := len(showsIn(h.lives("a"), []netip.Addr{h.addr})) == 0
			if cleared != tt.clears {
				t.Fatalf("its status says %v", h.lives("a").Status)
			}
			if !cleared {
				shows.Status.LoadBalancer.Ingress = nil // the other balancer has moved it
				h.tells(shows)
				if err := h.reconcile(t.Context(), "d/a"); err != nil {
					t.Fatal(err)
				}
			}
			if d, err := h.assign(t.Context(), h.svc[1]); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
				t.Errorf("another gets %v, %v", d, err)
			}
		})
	}
}

// ofAnother is a Service that another balancer serves, and has given these VIPs.
func ofAnother(svc *v1.Service, vips ...string) *v1.Service {
	svc = showing(svc, vips...)
	svc.Spec.LoadBalancerClass, svc.Status.Conditions = new("example.com/x"), nil
	return svc
}

// TestAddressThatAStaleStatusShowsIsNotGivenOnceItsHolderIsGone has another balancer's
// Service show the one address of the pool while somebody else holds it.
func TestAddressThatAStaleStatusShowsIsNotGivenOnceItsHolderIsGone(t *testing.T) {
	for name, tt := range map[string]struct{ held, gone func(*held) }{
		"a Service that held it before": {
			func(h *held) { h.settled(1) },
			func(h *held) { h.gives(1) },
		},
		"a Service that another leader gave it to since": {
			func(h *held) {
				h.observeShownBy(h.lives("a"))
				h.observe(claim.New(h.addr, "public", h.key(1), string(h.svc[1].UID)), "", true)
			},
			func(h *held) { h.gives(1) },
		},
		"another program": {
			func(h *held) { sink{h.store}.ObserveForeign(h.addr) },
			func(h *held) { sink{h.store}.ObserveDeleted(h.addr, "", "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeldOf(t, "192.0.2.0/32")
			h.cluster.Recorder = record.NewFakeRecorder(9)
			h.tells(ofAnother(h.svc[0], h.addr.String()))
			tt.held(h)
			if err := h.reconcile(t.Context(), "d/a"); err != nil {
				t.Fatal(err)
			}
			h.serviceCame(h.lives("a"))
			if err := h.reconcile(t.Context(), "d/a"); err != nil {
				t.Fatal(err)
			}
			tt.gone(h)
			third := h.svc[1].DeepCopy()
			third.Name, third.UID = "c", "service c"
			if err := h.client.Tracker().Add(third); err != nil {
				t.Fatal(err)
			}
			if err := h.known.Add(third); err != nil {
				t.Fatal(err)
			}
			if d, err := h.assign(t.Context(), third); err != nil || len(d.VIPs) > 0 {
				t.Errorf("another gets %v, %v", d, err)
			}
			h.tells(ofAnother(h.svc[0]))
			if err := h.reconcile(t.Context(), "d/a"); err != nil {
				t.Fatal(err)
			}
			if d, err := h.assign(t.Context(), third); err != nil || len(d.VIPs) != 1 {
				t.Errorf("once no status shows it, another gets %v, %v", d, err)
			}
		})
	}
}

// gives has one of the Services give back what it holds.
func (h *held) gives(i int) {
	h.t.Helper()
	h.tells(leaving(h.svc[i]))
	if err := h.reconcile(h.t.Context(), h.key(i).String()); err != nil {
		h.t.Fatal(err)
	}
}

// TestVIPIsTakenOverThoughAServiceThatGoesShowsItToo begins as a new leader does: pools
// first, then statuses.
func TestVIPIsTakenOverThoughAServiceThatGoesShowsItToo(t *testing.T) {
	h := newHeld(t)
	for _, svc := range h.svc {
		delete(svc.Annotations, "plinth.dev/ips")
	}
	h.tells(leaving(showing(h.svc[0], "192.0.2.2")))
	h.tells(showing(h.svc[1], "192.0.2.2"))
	h.ready = make(chan struct{}) // a leader begins
	for _, step := range []func(context.Context) error{h.setPools, h.adopt} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d, err := h.assign(t.Context(), h.lives("b"))
	if err != nil || !slices.Equal(d.Addrs(), []netip.Addr{netip.MustParseAddr("192.0.2.2")}) {
		t.Errorf("its VIP was 192.0.2.2, and now it gets %v, %v", d, err)
	}
}

// TestServiceWhoseStatusIsStaleIsQueued has each way in which Plinth hears of a status that
// shows the one address of the pool.
func TestServiceWhoseStatusIsStaleIsQueued(t *testing.T) {
	for name, hear := range map[string]func(*held, *v1.Service) error{
		"it comes":          func(h *held, svc *v1.Service) error { h.serviceCame(svc); return nil },
		"it changes":        func(h *held, svc *v1.Service) error { h.serviceChanged(svc, svc); return nil },
		"a leader comes":    func(h *held, _ *v1.Service) error { return h.adopt(h.t.Context()) },
		"the pools changed": func(h *held, _ *v1.Service) error { return h.setPools(h.t.Context()) },
		"the audit":         func(h *held, _ *v1.Service) error { return h.compare(h.t.Context()) },
	} {
		for _, another := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", another's ", another), func(t *testing.T) {
				h := newHeldOf(t, "192.0.2.0/32")
				svc := ofAnother(h.svc[0], "192.0.2.0")
				if !another { // it is no load balancer any more
					svc = showing(h.svc[0], "192.0.2.0")
					svc.Spec.Type = v1.ServiceTypeClusterIP
				}
				h.tells(svc)
				if err := hear(h, svc); err != nil {
					t.Fatal(err)
				}
				if got := h.queued(); !slices.Contains(got, "d/a") {
					t.Fatalf("queued are %v", got)
				}
				if err := h.reconcile(t.Context(), "d/a"); err != nil {
					t.Fatal(err)
				}
				if c, kept := h.state.Holding(h.addr); kept != another || len(c.Holders) > 0 {
					t.Errorf("the address is kept %v (%v), want %v", kept, c, another)
				}
				if !another {
					return
				}
				h.tells(ofAnother(h.svc[0]))
				h.queued()
				if h.serviceChanged(svc, h.lives("a")); !slices.Contains(h.queued(), "d/a") {
					t.Error("nobody looks at it once its status shows the address no more")
				}
			})
		}
	}
}

// TestAddressThatAServiceWasNotToldOfIsKeptWhileItsStatusShowsIt has it refused after an
// earlier process wrote a status that the cache has not seen.
func TestAddressThatAServiceWasNotToldOfIsKeptWhileItsStatusShowsIt(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	h.apply(func(s *ipam.State) ipam.Effects { // it was claimed, and another VIP could not be
		s.Forget(h.key(0))
		return ipam.Effects{}
	})
	svc := h.svc[0].DeepCopy()
	svc.Annotations = map[string]string{"plinth.dev/ips": "none"}
	h.tells(showing(svc, h.addr.String()))
	if _, err := h.assign(t.Context(), svc); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict: its status is another by now", err)
	}
	h.agree(h.key(0))
}

func TestGrantThatFailsLeavesAnAddressToTheStaleStatus(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/32")
	d := h.decide(requestOf(h.svc[1]))
	h.observeShownBy(ofAnother(h.svc[0], h.addr.String()))
	h.apply(func(s *ipam.State) ipam.Effects { return s.Revert(h.key(1), d.VIPs) })
	if c, kept := h.state.Holding(h.addr); !kept || len(c.Holders) > 0 {
		t.Errorf("it is kept %v: %v", kept, c)
	}
}

// TestServiceThatIsOursBeforeTheCacheKnowsIsAskedForEverLessOften has a cache that hangs: only
// a conflict makes the queue's pauses double.
func TestServiceThatIsOursBeforeTheCacheKnowsIsAskedForEverLessOften(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	if err := h.known.Update(leaving(h.svc[0])); err != nil {
		t.Fatal(err)
	}
	if err := h.reconcile(t.Context(), "d/a"); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	h.agree(h.key(0))
}
