package vip

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

func TestServiceThatIsRefusedWhileItsAddressIsGivenBackGetsIt(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	svc := loadBalancerService(func(svc *v1.Service) {
		svc.Annotations = map[string]string{"plinth.dev/ips": h.addr.String()}
	})
	if err := h.known.Add(svc); err != nil {
		t.Fatal(err)
	}
	d := h.decide(requestOf(svc))
	if !d.Refused {
		t.Fatal(d)
	}
	if !h.knows(keyOf(svc)) {
		t.Error("if it went now, nobody would forget that it waits")
	}
	h.queued()
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.settle(requestOf(svc), d) // it is told only now
	if got := h.queued(); !slices.Contains(got, "d/s") {
		t.Errorf("queued %v: it would wait for ever", got)
	}
	if d, err := h.assign(t.Context(), svc); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
		t.Errorf("it gets %v, %v", d, err)
	}
	h.agree(keyOf(svc))
}

func TestServiceMadeAnewIsNotToldThatItsStatusWasOverwritten(t *testing.T) {
	h := newHeld(t)
	events, class := record.NewFakeRecorder(9), lb.LoadBalancerClass
	h.cluster.Recorder = events
	h.svc[0].Spec.LoadBalancerClass = &class
	h.settled(0)
	right := h.svc[0].DeepCopy()
	right.Status.LoadBalancer.Ingress = ingressOf([]netip.Addr{h.addr})
	h.drifted(right) // which it was seen to say
	anew := h.svc[0].DeepCopy()
	anew.UID = "a later one"
	h.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, anew, nil
	})
	writes := 0
	h.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		return true, anew, nil
	})
	if h.drifted(anew) {
		t.Error("its status is taken for one that somebody overwrote")
	}
	d, err := h.assign(t.Context(), anew)
	if err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
		t.Fatal(d, err)
	}
	if _, err := h.writeOwnStatus(t.Context(), anew, d, announcement{}); err != nil {
		t.Fatal(err)
	}
	if s := h.seen(h.key(0)); writes != 1 || s.repairs != 0 || len(events.Events) != 0 {
		t.Errorf("its status is written %d times; %d count as set right, and %d are told", writes, s.repairs, len(events.Events))
	}
}

// refused settles a Service that asks for the address and does not get it.
func (h *held) refused(name string, change ...func(*v1.Service)) *v1.Service {
	h.t.Helper()
	svc := loadBalancerService(func(svc *v1.Service) {
		svc.Name, svc.UID = name, types.UID(name)
		svc.Annotations = map[string]string{"plinth.dev/ips": h.addr.String()}
	})
	for _, f := range change {
		f(svc)
	}
	if err := h.known.Add(svc); err != nil {
		h.t.Fatal(err)
	}
	if d, err := h.assign(h.t.Context(), svc); err != nil || !d.Refused {
		h.t.Fatal(d, err)
	}
	return svc
}

func TestServiceThatWaitsOnIsToldWhoHoldsTheAddressNow(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	h.refused("first")
	later := h.refused("later")
	h.queued()
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.queued(), []string{"d/first", "d/later"}; !slices.Equal(got, want) {
		t.Errorf("queued %v, want %v", got, want)
	}
	d, err := h.assign(t.Context(), later)
	if err != nil || !d.Refused || d.Denials[0].Holder.Name != "first" {
		t.Errorf("it is told %v, %v", d, err)
	}
}

// TestRestIsWaitedForByANewLeader has a Service that was told by an earlier process how long
// an address rests: nothing is to be written.
func TestRestIsWaitedForByANewLeader(t *testing.T) {
	h := newHeld(t)
	h.state.Quarantine([]ipam.Quarantined{ipam.Quarantined{Addr: h.addr, Owner: lb.ServiceKey{Namespace: "other", Name: "s"}, Until: noon.Add(time.Millisecond)}}, h.now())
	svc := h.refused("s")
	told, _ := h.told(svc)
	svc.Status.Conditions = []metav1.Condition{conditionOf(svc, told, noon)}
	if err := h.serve(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	looked := make(chan string)
	go func() {
		name, _ := h.queue.Get()
		looked <- name
	}()
	select {
	case name := <-looked:
		if name != "d/s" {
			t.Error("looked at is", name)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody looks at it when the rest ends")
	}
}

// TestServiceThatIsRefusedKeepsNothingThatItNeverHad has another program hold the only
// address of the other family, of which Plinth learns when it tries to take it.
func TestServiceThatIsRefusedKeepsNothingThatItNeverHad(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails bool // the API server, at the first try
		had   bool // the Service has an IPv4 address already, and asks for another
		want  []netip.Addr
	}{
		{"it is new", false, false, nil},
		{"it is new, and the first try fails", true, false, nil},
		{"it had another address", false, true, []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHeldOf(t, `192.0.2.0/30, "2001:db8::1-2001:db8::1"`)
			svc := h.svc[0]
			if tt.had {
				svc.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.1"}
				if d, err := h.assign(t.Context(), svc); err != nil || d.Refused {
					t.Fatal(d, err)
				}
				svc = svc.DeepCopy()
			}
			svc.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.0,2001:db8::1"}
			dual(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)(svc)
			h.edited(svc)
			h.takenByAnotherProgram("2001:db8::1")
			if tt.fails {
				h.client.PrependReactor("create", "ipaddresses", func(a clienttesting.Action) (bool, runtime.Object, error) {
					obj := a.(clienttesting.CreateAction).GetObject().(*networkingv1.IPAddress)
					return tt.fails && obj.Name == "2001:db8::1", nil, apierrors.NewInternalError(errors.New("the store does not answer"))
				})
				if d, err := h.assign(t.Context(), svc); err == nil {
					t.Fatalf("the API server fails, and it is given %v", d)
				}
				h.agree(h.key(0)) // what it took is kept for the next try
				tt.fails = false
			}
			d, err := h.assign(t.Context(), svc)
			if err != nil || !d.Refused || !slices.Equal(d.Addrs(), tt.want) {
				t.Errorf("it gets %v, %v, want refused with %v", d, err, tt.want)
			}
			h.departed()
			h.agree()
		})
	}
}

// takenByAnotherProgram makes an IPAddress object that is not Plinth's.
func (h *held) takenByAnotherProgram(a string) {
	h.t.Helper()
	foreign := claim.New(netip.MustParseAddr(a), "", h.key(1), "")
	foreign.Labels, foreign.Annotations = nil, nil
	if _, err := h.client.NetworkingV1().IPAddresses().Create(h.t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// TestServiceThatWaitedKeepsNothingThatItNeverHad has it granted both addresses when they
// come free, before it acquires them.
func TestServiceThatWaitedKeepsNothingThatItNeverHad(t *testing.T) {
	h := newHeldOf(t, `192.0.2.0/32, "2001:db8::1-2001:db8::1"`)
	for _, svc := range h.svc[:2] {
		dual(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)(svc)
		svc.Annotations = nil // they share with nobody
		h.edited(svc)
	}
	if d, err := h.assign(t.Context(), h.svc[0]); err != nil || len(d.VIPs) != 2 {
		t.Fatal(d, err)
	}
	if d, err := h.assign(t.Context(), h.svc[1]); err != nil || !d.Refused {
		t.Fatal(d, err)
	}
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.departed()
	if got := h.state.Holds(h.key(1)); len(got) != 2 {
		t.Fatalf("it waited, and is granted %v", got)
	}
	if o := h.object(h.addr); !o.HeldBy(h.key(0)) { // should this process end here, nothing else says so
		t.Errorf("nothing says any more that %v was released", h.addr)
	}
	if err := h.client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", "2001:db8::1"); err != nil {
		t.Fatal(err)
	}
	h.takenByAnotherProgram("2001:db8::1")
	if d, err := h.assign(t.Context(), h.svc[1]); err != nil || !d.Refused || len(d.VIPs) > 0 {
		t.Errorf("it gets %v, %v", d, err)
	}
	h.departed()
	h.agree()
}

func TestServiceKeepsNothingOfWhichTheAnswerWasLost(t *testing.T) {
	h := newHeldOf(t, `192.0.2.0/30, "2001:db8::1-2001:db8::1"`)
	svc := h.svc[0]
	dual(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)(svc)
	h.edited(svc)
	lost := true
	h.client.PrependReactor("create", "ipaddresses", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if !lost {
			return false, nil, nil
		}
		lost = false
		obj := a.(clienttesting.CreateAction).GetObject()
		if err := h.client.Tracker().Create(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), obj, ""); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewInternalError(errors.New("the answer is lost"))
	})
	if d, err := h.assign(t.Context(), svc); err == nil {
		t.Fatalf("the API server fails, and it is given %v", d)
	}
	a := netip.MustParseAddr("192.0.2.0")
	obj, err := h.client.NetworkingV1().IPAddresses().Get(t.Context(), a.String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.observe(obj, "", false) // by the watch
	h.takenByAnotherProgram("2001:db8::1")
	if d, err := h.assign(t.Context(), svc); err != nil || !d.Refused || len(d.VIPs) > 0 {
		t.Errorf("it gets %v, %v", d, err)
	}
	h.departed()
	h.agree()
}

// goingLister has a Service go right after it was read.
type goingLister struct {
	corelisters.ServiceLister
	h *held
}

func (l goingLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return goingNamespace{l.ServiceLister.Services(namespace), l.h}
}

type goingNamespace struct {
	corelisters.ServiceNamespaceLister
	h *held
}

func (l goingNamespace) Get(name string) (*v1.Service, error) {
	svc, err := l.ServiceNamespaceLister.Get(name)
	if err == nil {
		l.h.goes(svc)
	}
	return svc, err
}

// goes has a Service be deleted, and the cache know it.
func (h *held) goes(svc *v1.Service) {
	h.t.Helper()
	if err := h.client.CoreV1().Services(svc.Namespace).Delete(h.t.Context(), svc.Name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	if err := h.known.Delete(svc); err != nil {
		h.t.Fatal(err)
	}
	h.serviceGone(svc)
}

// TestServiceThatGoesBeforeItIsGivenAnythingHoldsNothingForLong is of a worker that has read
// it and waits for a lock.
func TestServiceThatGoesBeforeItIsGivenAnythingHoldsNothingForLong(t *testing.T) {
	h := newHeld(t)
	h.cluster.Recorder = record.NewFakeRecorder(9)
	known := h.services
	h.services = goingLister{known, h}
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	h.services = known
	if !slices.Contains(h.queued(), "d/a") {
		t.Fatalf("it holds %v, and nobody looks", h.state.Holds(h.key(0)))
	}
	if err := h.reconcile(t.Context(), "d/a"); err != nil || len(h.state.Holds(h.key(0))) > 0 {
		t.Errorf("it holds %v: %v", h.state.Holds(h.key(0)), err)
	}
}
