package vip

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/networking"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/claim"
)

// lists has the API server list these Services, with the managed fields that they have: the fake client keeps its own.
func (h *held) lists(all ...*v1.Service) {
	var list v1.ServiceList
	for _, svc := range all {
		list.Items = append(list.Items, *svc)
	}
	h.client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &list, nil
	})
}

func TestOfTwoThatWereMadeToClashWhileNobodyLookedTheOneEditedLastMoves(t *testing.T) {
	for edited := range 2 {
		h := newHeld(t)
		at := metav1.NewTime(noon.Add(time.Hour))
		for i, svc := range h.svc {
			delete(svc.Annotations, "plinth.dev/ips")
			svc.Spec.Ports[0].Port = 443
			svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "plinth", Subresource: "status", Time: &at}}
			if i == edited {
				svc.ManagedFields = append(svc.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", Time: &at})
			}
		}
		h.lists(h.svc[0], h.svc[1])
		obj := claim.New(h.addr, "public", h.key(0), string(h.svc[0].UID))
		obj.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
		if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.loads()
		if err := h.setPools(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, svc := range h.svc {
			want := h.addr
			if i == edited {
				want = netip.MustParseAddr("192.0.2.1")
			}
			if d := h.decide(requestOf(svc)); d.Refused || d.VIPs[0].Addr != want {
				t.Errorf("%s was edited last, and %s is to have %v, not %v", h.svc[edited].Name, svc.Name, d.VIPs, want)
			}
		}
	}
}

// TestAServiceThatLingersKeepsAnotherFromItsAddress: d/a waits for a finalizer and shows the address yet, and d/b, which
// shared it, was made anew without a key while nobody led.
func TestAServiceThatLingersKeepsAnotherFromItsAddress(t *testing.T) {
	h := newHeld(t)
	lingers := h.svc[0].DeepCopy()
	lingers.DeletionTimestamp, lingers.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/hold"}
	lingers.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: h.addr.String()}}
	h.svc[1].Annotations = nil
	h.lists(lingers, h.svc[1])
	obj := claim.New(h.addr, "public", h.key(1), string(h.svc[1].UID))
	obj.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.loads()
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if queued := h.queued(); !slices.Contains(queued, "d/a") {
		t.Errorf("queued %v: the one that lingers is to release it", queued)
	}
	if d := h.decide(requestOf(h.svc[1])); d.Refused || d.VIPs[0].Addr != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("it is to have %v, which the other shows", d.VIPs)
	}
}

// TestNobodyJoinsAServiceThatIsNotPlinthsAnyMore: it keeps its VIP, and nobody would hear of its next port.
func TestNobodyJoinsAServiceThatIsNotPlinthsAnyMore(t *testing.T) {
	h := newHeld(t)
	h.options.ClassOnly = true
	kept := h.svc[0].DeepCopy()
	kept.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: h.addr.String()}}
	kept.Status.Conditions = []metav1.Condition{{Type: lb.VIPAllocated, Status: metav1.ConditionTrue}}
	h.svc[1].Spec.LoadBalancerClass = new("plinth.dev/bgp")
	h.lists(kept, h.svc[1])
	if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), claim.New(h.addr, "public", h.key(0), string(kept.UID)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.loads()
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := h.decide(requestOf(h.svc[1])); !d.Refused || d.Denials[0].Reason != lb.SharingKeyDiffers {
		t.Errorf("it is to have %v, %v", d.VIPs, d.Denials)
	}
}

// TestWhatAnotherReleasesWhileALeaderLoadsIsKnown has the one that led before write down what
// it released, and remove the claim, while its successor learns what there is.
func TestWhatAnotherReleasesWhileALeaderLoadsIsKnown(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	once := sync.OnceFunc(func() {
		m := &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: claim.ReleasedName},
			Data:       map[string]string{"released.json": `[{"address":"192.0.2.0","owner":"d/a","until":"2026-01-01T12:10:00Z"}]`, "writes": "7"},
		}
		if err := h.client.Tracker().Add(m); err != nil {
			t.Error(err)
		}
		if err := h.client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", h.addr.String()); err != nil {
			t.Error(err)
		}
	})
	h.client.PrependReactor("list", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
		once()
		return false, nil, nil
	})
	h.loads()
	if got := h.quarantined(); len(got) != 1 || got[0].Addr != h.addr {
		t.Errorf("%v is in quarantine", got)
	}
}

// hookedInformers has something happen when those of networking are asked for.
type hookedInformers struct {
	informers.SharedInformerFactory
	asked func()
}

func (i hookedInformers) Networking() networking.Interface {
	i.asked()
	return i.SharedInformerFactory.Networking()
}

// TestAnInventoryThatComesIntoForceMeanwhileIsNotUndone has a ServiceCIDR change, which is
// another reason to set the pools, while an inventory comes into force.
func TestAnInventoryThatComesIntoForceMeanwhileIsNotUndone(t *testing.T) {
	h, next := newHeld(t), newHeldOf(t, "198.51.100.0/30").options.InForce.Get()
	shared := h.cluster.Informers
	h.cluster.Informers = hookedInformers{shared, func() {
		h.cluster.Informers = shared
		h.options.InForce.Set(next)
		if err := h.setPools(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pool := h.state.Pool(netip.MustParseAddr("198.51.100.1")); pool != "public" {
		t.Error("the pools are those of the inventory before")
	}
}

// TestAServiceCIDRThatComesWhileStatusesAreReadCounts, though nothing may be given yet.
func TestAServiceCIDRThatComesWhileStatusesAreReadCounts(t *testing.T) {
	h := newHeld(t)
	h.ready = make(chan struct{})
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.0/31"}}}
	if err := h.cluster.Informers.Networking().V1().ServiceCIDRs().Informer().GetIndexer().Add(cidr); err != nil {
		t.Fatal(err)
	}
	h.poolsChange(t.Context()).OnAdd(cidr, false)
	if !h.state.Uses(h.addr) {
		t.Error("the pools were set a moment before, and are not set again")
	}
}
