package vip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/event"
)

// taker is an object that has 192.0.2.0, and by which name it is told of.
type taker struct {
	obj any
	who string
}

// takerOfEachKind has one of each.
func takerOfEachKind() map[string]taker {
	node := func(name string, change func(*v1.Node)) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(n)
		return n
	}
	addressed := func(typ v1.NodeAddressType) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: typ, Address: "192.0.2.0"}}
		}
	}
	return map[string]taker{
		"a pod CIDR of a machine":                           {node("m1", func(n *v1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "192.0.2.0/31", []string{"192.0.2.0/31"} }), "the pods of node m1 (192.0.2.0/31)"},
		"a second pod CIDR":                                 {node("m1", func(n *v1.Node) { n.Spec.PodCIDRs = []string{"fd00:244::/64", "192.0.2.0/32"} }), "the pods of node m1"},
		"a pod CIDR with host bits, of an older API server": {node("m1", func(n *v1.Node) { n.Spec.PodCIDR = "192.000.002.001/31" }), "the pods of node m1 (192.0.2.0/31)"},
		"the address of a Node that is no machine":          {node("stranger", addressed(v1.NodeInternalIP)), "node stranger"},
		"its external address":                              {node("stranger", addressed(v1.NodeExternalIP)), "node stranger"},
		"a ServiceCIDR":                                     {&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.0/31"}}}, "ServiceCIDR late (192.0.2.0/31)"},
		"externalIPs of a Service inside":                   {external(v1.ServiceTypeClusterIP, "d", "192.0.2.0"), "the externalIPs of service d/x"},
		"externalIPs of another balancer's Service":         {external(v1.ServiceTypeLoadBalancer, "other", "192.0.2.0"), "the externalIPs of a Service of another namespace"},
		"an externalIP with zeros in front":                 {external(v1.ServiceTypeNodePort, "d", "192.000.002.000"), "the externalIPs of service d/x"},
	}
}

// external is a Service with externalIPs that Plinth does not serve, as the informer keeps it.
func external(typ v1.ServiceType, namespace string, addresses ...string) *v1.Service {
	class := "example.com/other"
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: "x"}, Spec: v1.ServiceSpec{Type: typ, ExternalIPs: addresses}}
	if typ == v1.ServiceTypeLoadBalancer {
		svc.Spec.LoadBalancerClass = &class
	}
	kept, _ := TrimService(svc)
	return kept.(*v1.Service)
}

// storeOf is where the informers keep an object.
func (h *held) storeOf(obj any) cache.Indexer {
	switch obj.(type) {
	case *v1.Node:
		return h.cluster.Informers.Core().V1().Nodes().Informer().GetIndexer()
	case *networkingv1.ServiceCIDR:
		return h.cluster.Informers.Networking().V1().ServiceCIDRs().Informer().GetIndexer()
	}
	return h.known
}

// comes has an object in the cache, and then the handlers told, as informers do it.
func (h *held) comes(obj any) {
	h.t.Helper()
	was, had, _ := h.storeOf(obj).Get(obj)
	if err := h.storeOf(obj).Add(obj); err != nil {
		h.t.Fatal(err)
	}
	takes := h.poolsChange(h.t.Context())
	if svc, ok := obj.(*v1.Service); ok {
		defer h.serviceChanged(svc, svc)
	}
	if had {
		takes.OnUpdate(was, obj)
	} else {
		takes.OnAdd(obj, false)
	}
}

// leaves has one gone.
func (h *held) leaves(obj any) {
	h.t.Helper()
	if err := h.storeOf(obj).Delete(obj); err != nil {
		h.t.Fatal(err)
	}
	h.poolsChange(h.t.Context()).OnDelete(cache.DeletedFinalStateUnknown{Obj: obj})
	h.serviceGone(obj)
}

// listened has what Services and Nodes are told come in here.
func (h *held) listened() *record.FakeRecorder {
	events := record.NewFakeRecorder(20)
	h.cluster.Recorder, h.cluster.Reports = events, event.NewReports(events)
	return events
}

// said takes what was told until now.
func said(events *record.FakeRecorder) (all []string) {
	for {
		select {
		case e := <-events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestNoVIPIsGivenThatTheClusterHas(t *testing.T) {
	for what, has := range takerOfEachKind() {
		for _, first := range []bool{true, false} { // before the inventory is in force, and while it is
			h := newHeldOf(t, "192.0.2.0/30")
			h.listened()
			if h.comes(has.obj); first {
				if err := h.setPools(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			d := h.decide(requestOf(h.svc[0])) // which asks for it by address
			if want := "AddressExcluded (192.0.2.0, taken by " + has.who + ")"; !d.Refused || !strings.Contains(d.String(), want) {
				t.Errorf("%s: %s, want %s", what, d, want)
			}
			r := requestOf(h.svc[1])
			if r.Addrs = nil; len(d.VIPs) > 0 || h.decide(r).Addrs()[0] == h.addr {
				t.Errorf("%s: it is given to who asks for none", what)
			}
			h.leaves(has.obj)
			if d := h.decide(requestOf(h.svc[0])); d.Refused || d.Addrs()[0] != h.addr {
				t.Errorf("%s is gone, and it is not given: %s", what, d)
			}
		}
	}
}

func TestAVIPThatTheClusterTakesLaterStaysAndItsServiceIsTold(t *testing.T) {
	for what, has := range takerOfEachKind() {
		h := newHeldOf(t, "192.0.2.0/30")
		events := h.listened()
		h.settled(0)
		h.comes(has.obj)
		h.comes(has.obj)
		h.settled(0)
		var told []string
		for _, e := range said(events) {
			if !strings.HasPrefix(e, "Warning PoolTakesAddress") { // of the other Service
				told = append(told, e)
			}
		}
		if len(told) != 1 || !strings.HasPrefix(told[0], "Warning AddressExcluded 192.0.2.0 is kept and announced") || !strings.Contains(told[0], "taken by "+has.who) {
			t.Errorf("%s: the Service is told %q", what, told)
		}
		h.loads() // another leader begins: it knows the claim
		h.settled(0)
	}
}

func TestAServiceIsToldOnceOfItsExternalIPsThatPoolsHave(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/30")
	events := h.listened()
	inside := external(v1.ServiceTypeClusterIP, "d", "192.0.2.1", "198.51.100.1", "192.0.2.2")
	for range 2 {
		h.comes(inside)
		if err := h.setPools(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if told := said(events); len(told) != 1 || !strings.HasPrefix(told[0], "Warning PoolTakesAddress of its externalIPs 192.0.2.1 is in pool public, 192.0.2.2 is in pool public: ") {
		t.Errorf("it is told %q", told)
	}
	beside := external(v1.ServiceTypeClusterIP, "d", "198.51.100.1")
	h.comes(beside)
	if told := said(events); len(told) > 0 || h.cluster.Reports.Open() > 0 {
		t.Errorf("it has none any more, and is told %q", told)
	}
}

// A Service has the same address as VIP and externalIP: as people have it who come from externalIPs, or for programs that know
// only these.
func TestAServiceMayHaveItsVIPAmongItsExternalIPs(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/30")
	events := h.listened()
	for range 2 {
		h.svc[0] = h.svc[0].DeepCopy()
		h.svc[0].Spec.ExternalIPs = []string{h.addr.String()}
		h.comes(h.svc[0])
		h.settled(0)
	}
	if told := said(events); len(told) > 0 {
		t.Errorf("it is told %q", told)
	}
	if d := h.decide(requestOf(h.svc[1])); !d.Refused { // which asks for it, too, under the same sharing key
		t.Errorf("another Service is given %s", d)
	}
}

// People write an address into the status by way of another balancer, and among externalIPs, or somebody else does the latter:
// the Service keeps it when Plinth comes, and is told.
func TestAVIPOfAnotherBalancerStaysThoughItIsAnExternalIP(t *testing.T) {
	for what, theirs := range map[string]bool{"of its own": false, "of another namespace": true} {
		h := newHeldOf(t, "192.0.2.0/30")
		events := h.listened()
		svc := h.svc[0].DeepCopy()
		svc.Annotations = nil
		svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: h.addr.String()}}
		if theirs {
			h.comes(external(v1.ServiceTypeClusterIP, "other", h.addr.String()))
		} else {
			svc.Spec.ExternalIPs = []string{h.addr.String()}
		}
		h.svc[0] = svc
		if _, err := h.client.CoreV1().Services(svc.Namespace).Update(t.Context(), svc, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.comes(svc)
		if err := h.adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.settled(0)
		said(events)
		if err := h.setPools(t.Context()); err != nil {
			t.Fatal(err)
		}
		told := strings.Join(said(events), "\n")
		if is := strings.Contains(told, "Warning AddressExcluded 192.0.2.0 is kept and announced, but is taken by the externalIPs of a Service of another namespace, too"); is != theirs {
			t.Errorf("%s: it is told %q", what, told)
		}
	}
}

// Who writes externalIPs does not keep a Service from the VIP that is reserved for it.
func TestAReservedVIPIsGivenThoughItIsAnExternalIP(t *testing.T) {
	h := newHeldWith(t, "{name: public, addresses: [192.0.2.0/30], reserved: {192.0.2.0: d/a}}")
	events := h.listened()
	h.comes(external(v1.ServiceTypeClusterIP, "other", h.addr.String()))
	h.settled(0)
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := strings.Join(said(events), "\n")
	if !strings.Contains(told, "but for one that has it already, or that it is reserved for") || !strings.Contains(told, "Warning AddressExcluded 192.0.2.0 is kept and announced, but is taken by") {
		t.Errorf("they are told %q", told)
	}
}

// Heartbeats come all the time, and Nodes join elsewhere: the pools are worked out anew only where one of them has something of it.
func TestPoolsAreSetAnewOnlyWhereTheClusterTakesSomethingOfThem(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/30")
	h.listened()
	times := 0
	shared := h.cluster.Informers
	h.cluster.Informers = hookedInformers{shared, func() { times++ }}
	node := func(beat, cidr, address string) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1", ResourceVersion: beat}, Spec: v1.NodeSpec{PodCIDRs: []string{cidr}}}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
		return n
	}
	for i, step := range []struct {
		what string
		obj  any
		set  bool
	}{
		{"a Node that has nothing of a pool", node("1", "10.244.1.0/24", "10.10.1.11"), false},
		{"its heartbeat", node("2", "10.244.1.0/24", "10.10.1.11"), false},
		{"another address elsewhere", node("3", "10.244.1.0/24", "10.10.1.12"), false},
		{"an address of a pool", node("4", "10.244.1.0/24", "192.0.2.3"), true},
		{"a heartbeat", node("5", "10.244.1.0/24", "192.0.2.3"), false},
		{"it is elsewhere again", node("6", "10.244.1.0/24", "10.10.1.11"), true},
		{"a Service without externalIPs", external(v1.ServiceTypeClusterIP, "d"), false},
		{"with one elsewhere", external(v1.ServiceTypeClusterIP, "d", "198.51.100.1"), false},
		{"with one in a pool", external(v1.ServiceTypeClusterIP, "d", "192.0.2.1"), true},
	} {
		times = 0
		if h.comes(step.obj); (times > 0) != step.set {
			t.Errorf("%d, %s: the pools were set %d times", i, step.what, times)
		}
	}
}

func TestALeaderWaitsForAllThatMayHaveAddresses(t *testing.T) {
	for _, late := range []string{"nodes", "services", "servicecidrs"} {
		h := newHeld(t)
		b, listed := New(h.options), new(atomic.Bool)
		h.client.PrependReactor("list", late, func(clienttesting.Action) (bool, runtime.Object, error) {
			return !listed.Load(), nil, apierrors.NewServiceUnavailable("later")
		})
		shared := informers.NewSharedInformerFactory(h.client, 0)
		b.Use(Cluster{Client: h.client, Informers: shared, Reports: event.NewReports(nil)})
		b.ctx = t.Context()
		synced, err := b.follow()
		if err != nil {
			t.Fatal(err)
		}
		shared.Start(t.Context().Done())
		counts := map[string]cache.InformerSynced{"nodes": shared.Core().V1().Nodes().Informer().HasSynced, "services": shared.Core().V1().Services().Informer().HasSynced,
			"servicecidrs": shared.Networking().V1().ServiceCIDRs().Informer().HasSynced}
		for kind, is := range counts {
			if kind != late && !cache.WaitForCacheSync(t.Context().Done(), is) {
				t.Fatal(kind)
			}
		}
		if !slices.ContainsFunc(synced, func(is cache.InformerSynced) bool { return !is() }) {
			t.Errorf("%s are not listed yet, and nobody waits for them", late)
		}
		listed.Store(true)
		if !cache.WaitForCacheSync(t.Context().Done(), synced...) {
			t.Errorf("%s are listed, and do not come", late)
		}
	}
}

func TestWhatNodesAndServicesHaveIsFoundInAClusterOfAnySize(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/24")
	h.listened()
	for i := range 1600 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}, Spec: v1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}}}
		if i%100 == 0 {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i/100)}}
		}
		if err := h.storeOf(n).Add(n); err != nil {
			t.Fatal(err)
		}
	}
	inv := h.options.InForce.Get()
	all := h.takers().taken(inv)
	if !slices.IsSortedFunc(all, func(a, b lb.Taken) int { return a.Prefix.Addr().Compare(b.Prefix.Addr()) }) || len(all) != 16 {
		t.Errorf("%d: %v", len(all), all)
	}
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := requestOf(h.svc[1])
	r.Addrs = nil
	if d := h.decide(r); d.Addrs()[0] != netip.MustParseAddr("192.0.2.16") {
		t.Errorf("it is given %s", d)
	}
}
