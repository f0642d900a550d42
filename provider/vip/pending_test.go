package vip

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/lb"
)

// countingQueue counts how often something is put into it.
type countingQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	added int
}

func (q *countingQueue) Add(name string) {
	q.added++
	q.TypedRateLimitingInterface.Add(name)
}

func (q *countingQueue) AddAfter(name string, pause time.Duration) {
	q.added++
	q.TypedRateLimitingInterface.AddAfter(name, pause)
}

// countingLister counts how often a Service is read, which is once for each decision.
type countingLister struct {
	corelisters.ServiceLister
	read *int
}

func (l countingLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return countingNamespace{l.ServiceLister.Services(namespace), l.read}
}

type countingNamespace struct {
	corelisters.ServiceNamespaceLister
	read *int
}

func (l countingNamespace) Get(name string) (*v1.Service, error) {
	*l.read++
	return l.ServiceNamespaceLister.Get(name)
}

// waitingWith has n Services of one namespace wait, each with a sharing key.
func (h *held) waitingWith(n int, key func(i int) string) {
	h.t.Helper()
	for i := range n {
		svc := loadBalancerService(func(svc *v1.Service) {
			svc.Name, svc.UID = fmt.Sprintf("w%d", i), types.UID(fmt.Sprint("u", i))
			svc.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Second))
			svc.Annotations = map[string]string{"plinth.dev/sharing-key": key(i)}
		})
		if err := h.known.Add(svc); err != nil {
			h.t.Fatal(err)
		}
		if d := h.decide(requestOf(svc)); !d.Refused {
			h.t.Fatal(d)
		}
	}
}

// TestServicesThatWaitAreEachLookedAtAFewTimesWhenAPoolGrows counts, while the one lock is
// held, how often one of them is read or queued.
func TestServicesThatWaitAreEachLookedAtAFewTimesWhenAPoolGrows(t *testing.T) {
	const most = 4 // times each
	for name, key := range map[string]func(int) string{
		"a key each": func(i int) string { return fmt.Sprint("k", i) },
		"one key":    func(int) string { return "k" },
	} {
		for _, n := range []int{1000, 2000, 4000, 8000} {
			h := newHeldOf(t, "192.0.2.0/32")
			h.settled(0)
			h.waitingWith(n, key)
			grown := newHeldWith(t, "{name: public, addresses: [192.0.2.0/32]}, {name: big, addresses: [10.20.0.0/16]}")
			h.options.InForce.Set(grown.options.InForce.Get())
			read, queue := 0, &countingQueue{TypedRateLimitingInterface: h.queue.TypedRateLimitingInterface}
			h.services, h.queue.TypedRateLimitingInterface = countingLister{h.services, &read}, queue
			if err := h.setPools(t.Context()); err != nil {
				t.Fatal(err)
			}
			if read > most*n || queue.added > most*n {
				t.Fatalf("%s: %d Services that wait are read %d times and queued %d times, want at most %d of each", name, n, read, queue.added, most*n)
			}
			if held := len(h.state.Holds(lb.ServiceKey{Namespace: "d", Name: fmt.Sprint("w", n-1)})); held != 1 {
				t.Errorf("%s: the last of %d is granted %d addresses, want 1", name, n, held)
			}
		}
	}
}

// TestServiceThatWaitsToShareIsLookedAtWhenOneBeforeItIsGranted has a younger one told
// again of what the older was granted in the same moment.
func TestServiceThatWaitsToShareIsLookedAtWhenOneBeforeItIsGranted(t *testing.T) {
	h := newHeldOf(t, "192.0.2.0/32")
	h.settled(0)
	h.waitingWith(3, func(int) string { return "k" })
	h.queued()
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"d/w0", "d/w1", "d/w2"} {
		if got, _ := h.queue.Get(); got != want {
			t.Errorf("queued is %s, want %s", got, want)
		}
	}
}

// TestServiceThatWaitsIsOfferedWhatItAsksForNow has an address come free after a Service that
// waits was edited, and before a worker looks at it: a VIP that it was once granted it keeps.
func TestServiceThatWaitsIsOfferedWhatItAsksForNow(t *testing.T) {
	h := newHeldWith(t, "{name: public, addresses: [192.0.2.0/32], serviceSelector: {matchLabels: {tier: web}}}")
	h.svc[0].Labels = map[string]string{"tier": "web"}
	h.settled(0)
	old := h.refused("waits", func(svc *v1.Service) { svc.Labels = map[string]string{"tier": "web"} })
	svc := old.DeepCopy()
	svc.Labels = nil
	if err := h.known.Update(svc); err != nil {
		t.Fatal(err)
	}
	h.serviceChanged(old, svc)
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if d := h.decide(requestOf(svc)); !d.Refused || len(d.VIPs) > 0 {
		t.Errorf("it gets %v of a pool that does not select it", d.VIPs)
	}
}
