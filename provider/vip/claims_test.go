package vip

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/provider/event"
)

// held is a balancer with an address of a pool and two Services d/a and d/b that may
// share it. It follows no watch, so that a test says what is in flight.
type held struct {
	*Controller
	t      *testing.T
	client *versionedClient
	addr   netip.Addr
	svc    [2]*v1.Service
	known  cache.Indexer // the Services in the informer's cache
	edits  int           // of Services, by people
}

func newHeld(t *testing.T) *held {
	t.Helper()
	return newHeldOf(t, "192.0.2.0/30")
}

// newHeldOf has a pool of these addresses.
func newHeldOf(t *testing.T, addresses string) *held {
	t.Helper()
	return newHeldWith(t, "{name: public, addresses: ["+addresses+"]}")
}

func newHeldWith(t *testing.T, pool string) *held {
	t.Helper()
	h := &held{t: t, addr: netip.MustParseAddr("192.0.2.0"), client: &versionedClient{}}
	inv, problems := document.Load(document.Document{Source: "test.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: test}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 10.10.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: m1, addresses: [10.10.1.11]}]}]
  pools: [` + pool + `]
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	h.controls(inv)
	for i, name := range []string{"a", "b"} {
		h.svc[i] = loadBalancerService(func(svc *v1.Service) {
			svc.Name, svc.UID = name, types.UID("service "+name)
			svc.Spec.Ports = []v1.ServicePort{{Protocol: v1.ProtocolTCP, Port: int32(80 + i)}}
			svc.Annotations = map[string]string{"metallb.io/allow-shared-ip": "web", "plinth.dev/ips": h.addr.String()}
		})
		if err := h.known.Add(h.svc[i]); err != nil {
			t.Fatal(err)
		}
	}
	h.client.Clientset = fake.NewClientset(h.svc[0], h.svc[1])
	h.reaches()
	if err := h.setPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(h.loaded)
	close(h.ready)
	return h
}

// controls gives it a Controller that follows no watch, with an inventory in force.
func (h *held) controls(inv *inventory.Inventory) {
	h.Controller = New(Options{Namespace: "kube-system", InForce: new(source.InForce), Log: slog.Default()})
	h.options.InForce.Set(inv)
	h.cluster.Recorder, h.cluster.Reports = &record.FakeRecorder{}, event.NewReports(&record.FakeRecorder{})
	h.known = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	h.services = corelisters.NewServiceLister(h.known)
	h.now = func() time.Time { return noon }
}

// reaches has the Controller reach the API server.
func (h *held) reaches() {
	h.t.Helper()
	h.cluster.Client = h.client
	h.cluster.Informers = informers.NewSharedInformerFactory(h.client, 0)
	h.claims = claim.Client{Kube: h.client, Namespace: h.options.Namespace}
	h.remembers("")
}

// key returns who one of the Services is.
func (h *held) key(i int) lb.ServiceKey { return keyOf(h.svc[i]) }

// settled settles one of the Services, which is to get the address.
func (h *held) settled(i int) {
	h.t.Helper()
	if d, err := h.assign(h.t.Context(), h.svc[i]); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
		h.t.Fatalf("%v got %v, %v", h.key(i), d, err)
	}
}

// agree checks that the object and the ledger name the same holders.
func (h *held) agree(want ...lb.ServiceKey) {
	h.t.Helper()
	var object, ledger []lb.ServiceKey
	if obj, err := h.client.NetworkingV1().IPAddresses().Get(h.t.Context(), h.addr.String(), metav1.GetOptions{}); err == nil {
		o, _ := claim.Read(obj)
		object = o.Holders
	}
	for _, x := range h.holders(h.addr) {
		ledger = append(ledger, x.Service)
	}
	slices.SortFunc(ledger, lb.ServiceKey.Compare)
	if known := h.object(h.addr).Holders; !slices.Equal(object, want) || !slices.Equal(ledger, want) || !slices.Equal(known, want) {
		h.t.Errorf("the object names %v, the ledger %v, what is known %v; want %v", object, ledger, known, want)
	}
}

// departed removes what is released.
func (h *held) departed() {
	h.t.Helper()
	if _, err := h.released.write(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// holders returns who holds an address.
func (h *held) holders(a netip.Addr) []ipam.Holder {
	for _, c := range h.state.Holdings() {
		if c.Addr == a {
			return c.Holders
		}
	}
	return nil
}

// quarantined returns what is in quarantine, sorted by its end.
func (h *held) quarantined() []ipam.Quarantined {
	all, _ := h.state.Quarantined(h.now())
	return all
}

// releasing reports whether an address is released and still has its object.
func (h *held) releasing(a netip.Addr) bool {
	releasing := h.state.Releasing(a) != nil
	return releasing
}

// seen is what the status of a Service was seen to say.
func (h *held) seen(k lb.ServiceKey) seenStatus {
	h.reports.mu.Lock()
	defer h.reports.mu.Unlock()
	if l := h.reports.seen[k]; l != nil {
		return *l
	}
	return seenStatus{}
}

// observeShownBy takes in what the status of a Service shows.
func (h *held) observeShownBy(svc *v1.Service) {
	h.apply(func(s *ipam.State) ipam.Effects { return s.ObserveShown(keyOf(svc), endpoints.ShownBy(svc)) })
}

// remembers has the controller know nothing of before but what is in a file.
func (h *held) remembers(file string) {
	h.mirror = claim.NewMirror(h.log, h.claims)
	h.journal = claim.NewJournal(h.log, h.claims, h.mirror, file)
	h.journal.Load()
}

// follow is a mirror that tells this controller, and follows no watch of its own.
func (h *held) follow() *claim.Mirror {
	h.remembers("")
	h.mirror.Lead(sink{h.store}, "", func() {})
	return h.mirror
}

func TestHolderThatLeavesWhileAnotherJoinsIsNamedNoMore(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	d := h.decide(requestOf(h.svc[1])) // b is about to write that it joins
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if acquired, err := h.acquireAll(t.Context(), requestOf(h.svc[1]), d); !acquired || err != nil {
		t.Fatal(acquired, err)
	}
	h.agree(h.key(1))
	if err := h.clearAndRelease(t.Context(), h.key(1), string(h.svc[1].UID)); err != nil {
		t.Fatal(err)
	}
	h.departed()
	h.agree()
}

func TestHolderThatLeavesIsNotKeptByOneThatNeverJoins(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	d := h.decide(requestOf(h.svc[1]))
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.apply(func(s *ipam.State) ipam.Effects { return s.Revert(h.key(1), d.VIPs) }) // its write failed
	h.agree(h.key(1))                                                               // which holds it all the same
}

func TestHoldersComeAndGoAtOnceAndTheObjectAgrees(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	for range 50 {
		var both sync.WaitGroup
		both.Go(func() {
			if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if d, err := h.assign(t.Context(), h.svc[1]); err != nil || d.VIPs[0].Addr != h.addr {
				t.Errorf("%v, %v", d, err)
			}
		})
		both.Wait()
		h.departed()
		h.agree(h.key(1))
		h.settled(0)
		h.agree(h.key(0), h.key(1))
		if err := h.clearAndRelease(t.Context(), h.key(1), string(h.svc[1].UID)); err != nil {
			t.Fatal(err)
		}
		h.agree(h.key(0))
	}
}

// TestSharersThatComeAndGoAtOnceCostAWriteEach has none of them in another's way.
func TestSharersThatComeAndGoAtOnceCostAWriteEach(t *testing.T) {
	h := newHeld(t)
	var sharers []*v1.Service
	for i := range 40 {
		svc := h.svc[0].DeepCopy()
		svc.Name, svc.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint("service ", i))
		svc.Spec.Ports[0].Port = int32(1000 + i)
		sharers = append(sharers, svc)
		if err := h.known.Add(svc); err != nil {
			t.Fatal(err)
		}
	}
	atOnce := func(f func(*v1.Service) error) {
		var all sync.WaitGroup
		for _, svc := range sharers {
			all.Go(func() {
				if err := f(svc); err != nil {
					t.Errorf("%s: %v", svc.Name, err)
				}
			})
		}
		all.Wait()
	}
	atOnce(func(svc *v1.Service) error {
		_, err := h.assign(t.Context(), svc)
		return err
	})
	joined := h.client.changes
	if joined != len(sharers) {
		t.Errorf("%d writes to the object until all %d hold it", joined, len(sharers))
	}
	atOnce(func(svc *v1.Service) error { return h.clearAndRelease(t.Context(), keyOf(svc), string(svc.UID)) })
	if n := h.client.changes - joined; n != len(sharers)-1 { // the last one leaves it to be removed
		t.Errorf("%d writes to the object until all %d have left", n, len(sharers))
	}
	h.departed()
	h.agree()
}

func TestClaimThatReplacesAReleasedOneIsNotForgotten(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.client.deleted = func() { // the DELETE's answer is under way
		if there := h.object(h.addr).UID != ""; !there {
			t.Fatal("the claim is forgotten before it is known to be gone")
		}
		obj, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), claim.New(h.addr, "public", h.key(1), string(h.svc[1].UID)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		h.observe(obj, "", false) // of another leader
	}
	h.departed()
	h.agree(h.key(1))
	if h.releasing(h.addr) {
		t.Error("the new claim is to be removed")
	}
}

func TestLaterServiceOfTheNameKeepsWhatItWasTold(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	if err := h.clearAndRelease(t.Context(), h.key(0), "an earlier one"); err != nil {
		t.Fatal(err)
	}
	h.agree(h.key(0))
	if _, told := h.told(h.svc[0]); !told {
		t.Error("what the Service was told is forgotten")
	}
}

func TestServiceGivesBackWhatAnEarlierOneOfItsNameTook(t *testing.T) {
	h := newHeld(t)
	earlier := h.svc[0].DeepCopy()
	earlier.UID = "an earlier one"
	if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), claim.New(h.addr, "public", h.key(0), string(earlier.UID)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.refresh(t.Context(), h.addr); err != nil {
		t.Fatal(err)
	}
	now := h.svc[0].DeepCopy()
	now.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.2"}
	h.edited(now)
	if _, err := h.assign(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	h.departed()
	h.agree()
	if _, err := h.assign(t.Context(), earlier); !apierrors.IsConflict(err) {
		t.Errorf("the earlier one is settled: %v", err)
	}
}

func TestStatusThatCouldNotBeSetRightIsNotCounted(t *testing.T) {
	h := newHeld(t)
	events := record.NewFakeRecorder(9)
	h.cluster.Recorder = events
	h.settled(0)
	d, _ := h.told(h.svc[0])
	right := h.svc[0].DeepCopy()
	right.Status.LoadBalancer.Ingress = ingressOf([]netip.Addr{h.addr})
	h.drifted(right) // which it was seen to say
	conflict := apierrors.NewConflict(v1.Resource("services"), "a", errOtherService)
	h.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := error(conflict)
		if conflict == nil {
			err = nil
		}
		return true, h.svc[0], err
	})
	if _, err := h.writeOwnStatus(t.Context(), h.svc[0], d, announcement{}); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	if s := h.seen(h.key(0)); s.repairs != 0 || len(events.Events) != 0 {
		t.Errorf("%d are counted and %d told after a conflict", s.repairs, len(events.Events))
	}
	conflict = nil
	if _, err := h.writeOwnStatus(t.Context(), h.svc[0], d, announcement{}); err != nil {
		t.Fatal(err)
	}
	if s := h.seen(h.key(0)); s.repairs != 1 || len(events.Events) != 1 {
		t.Errorf("%d are counted and %d told after it was set right", s.repairs, len(events.Events))
	}
}

func TestWhoWaitsLongestIsServedFirst(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	var waits []*v1.Service
	for i, name := range []string{"younger", "older"} {
		waits = append(waits, h.refused(name, func(svc *v1.Service) {
			svc.CreationTimestamp = metav1.NewTime(noon.Add(-time.Duration(i) * time.Hour))
		}))
	}
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if d, err := h.assign(t.Context(), waits[0]); err != nil || !d.Refused { // however early it is looked at
		t.Errorf("the younger gets %v, %v", d.VIPs, err)
	}
	if d, err := h.assign(t.Context(), waits[1]); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
		t.Errorf("the older gets %v, %v", d, err)
	}
	h.agree(keyOf(waits[1]))
	if slices.Contains(h.state.Pending(), keyOf(waits[1])) {
		t.Error("the older waits on")
	}
}

func TestConditionThatSomebodyChangedIsSetRight(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	svc := h.svc[0].DeepCopy()
	svc.Status.LoadBalancer.Ingress = ingressOf([]netip.Addr{h.addr})
	if h.drifted(svc) {
		t.Error("a condition that is not there yet is taken for one that somebody removed")
	}
	told, _ := h.told(svc)
	svc.Status.Conditions = []metav1.Condition{conditionOf(svc, told, noon)}
	if h.drifted(svc) {
		t.Error("a status that is right is taken for another")
	}
	forged := svc.DeepCopy()
	forged.Status.Conditions[0].Status = metav1.ConditionFalse
	wiped := svc.DeepCopy()
	wiped.Status.Conditions = nil
	if !h.drifted(forged) || !h.drifted(wiped) {
		t.Error("a condition that is forged or wiped is left so")
	}
	if got := overwritten(wiped, told); !strings.Contains(got, lb.VIPAllocated) {
		t.Errorf("the Event says %q", got)
	}
	later := told
	later.Denials = []ipam.Denial{{Reason: lb.PoolLacksFamily, Pool: "public", Family: lb.IPv6}}
	h.settle(requestOf(svc), later)
	if h.drifted(svc) {
		t.Error("a condition that is not written yet is taken for one that somebody changed")
	}
}

// begins has a leader learn what is held, which knows nothing of before.
func (h *held) begins() error {
	h.remembers("")
	*h.state = *ipam.NewState()
	return h.load(h.t.Context())
}

// loads is begins, and has to succeed.
func (h *held) loads() {
	h.t.Helper()
	if err := h.begins(); err != nil {
		h.t.Fatal(err)
	}
}

// edited has the API server have a Service as it is here.
func (h *held) edited(svc *v1.Service) {
	h.t.Helper()
	if err := h.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("services"), svc, svc.Namespace); err != nil {
		h.t.Fatal(err)
	}
}
