package vip

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/event"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// loadBalancerService is a Service d/s as the API server gives it.
func loadBalancerService(change ...func(*v1.Service)) *v1.Service {
	svc := &v1.Service{}
	svc.Namespace, svc.Name, svc.UID, svc.ResourceVersion = "d", "s", "u1", "7"
	svc.Spec.Type = v1.ServiceTypeLoadBalancer
	svc.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol}
	svc.Spec.Ports = []v1.ServicePort{{Protocol: v1.ProtocolTCP, Port: 443}, {Protocol: v1.ProtocolTCP, Port: 80}, {Protocol: v1.ProtocolUDP, Port: 443}}
	svc.Spec.Selector = map[string]string{"b": "2", "a": "1"}
	for _, f := range change {
		f(svc)
	}
	return svc
}

func local(svc *v1.Service) { svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal }

func dual(policy v1.IPFamilyPolicy, families ...v1.IPFamily) func(*v1.Service) {
	return func(svc *v1.Service) { svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, families }
}

func TestRequestSaysWhatTheServiceSays(t *testing.T) {
	r := requestOf(loadBalancerService(local, func(svc *v1.Service) {
		svc.Labels = map[string]string{"tier": "web"}
		svc.Annotations = map[string]string{"metallb.io/allow-shared-ip": "k", "plinth.dev/pool": "p"}
		svc.Spec.LoadBalancerIP = "192.0.2.1"
	}))
	want := ipam.Request{
		Holder: ipam.Holder{Service: lb.ServiceKey{Namespace: "d", Name: "s"}, Sharing: "k", Backends: "a=1,b=2",
			Ports: []ipam.Port{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 443}, {Protocol: "UDP", Number: 443}}},
		Ask:  ipam.Ask{Pool: "p", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		Want: ipam.Want{First: lb.IPv4},
		UID:  "u1", Labels: map[string]string{"tier": "web"},
	}
	if diff := cmp.Diff(want, r, sameAddr); diff != "" {
		t.Error(diff)
	}
}

func TestFamiliesAreThoseThatTheAPIServerFilledIn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1.Service)
		want   ipam.Want
	}{
		{"SingleStack", dual(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol), ipam.Want{First: lb.IPv6}},
		{"RequireDualStack", dual(v1.IPFamilyPolicyRequireDualStack, v1.IPv6Protocol, v1.IPv4Protocol), ipam.Want{First: lb.IPv6, Second: lb.IPv4}},
		{"PreferDualStack", dual(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol), ipam.Want{First: lb.IPv4, Second: lb.IPv6, Optional: true}},
		{"PreferDualStack in a cluster of one family", dual(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol), ipam.Want{First: lb.IPv4}},
		{"none filled in", dual(v1.IPFamilyPolicySingleStack), ipam.Want{First: lb.IPv4}},
	} {
		if got := wantOf(loadBalancerService(tt.change)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestBackendsCountWithLocalTrafficOnly(t *testing.T) {
	if got := backendsOf(loadBalancerService()); got != "" {
		t.Errorf("with externalTrafficPolicy Cluster: %q", got)
	}
	if got := backendsOf(loadBalancerService(local, func(svc *v1.Service) { svc.Spec.Selector = nil })); got != "endpoints of s" {
		t.Errorf("without a selector: %q", got)
	}
}

func TestOnlyServicesOfOursAreServed(t *testing.T) {
	class := func(c string) func(*v1.Service) {
		return func(svc *v1.Service) { svc.Spec.LoadBalancerClass = &c }
	}
	for _, tt := range []struct {
		name            string
		change          func(*v1.Service)
		serves, ifClass bool // by default, and with ClassOnly
	}{
		{"without a class", func(*v1.Service) {}, true, false},
		{"of our class", class(lb.LoadBalancerClass), true, true},
		{"of another class", class("example.com/x"), false, false},
		{"of another type", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeNodePort }, false, false},
		{"being deleted", func(svc *v1.Service) { svc.DeletionTimestamp = &metav1.Time{} }, false, false},
	} {
		svc := loadBalancerService(tt.change)
		if got := New(Options{}).isOurs(svc); got != tt.serves {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got := New(Options{ClassOnly: true}).isOurs(svc); got != tt.ifClass {
			t.Errorf("%s, class only: %v", tt.name, got)
		}
	}
}

func TestStatusPatchSaysWhatIsMissingAndNothingElse(t *testing.T) {
	vip := ipam.Assignment{Addr: netip.MustParseAddr("192.0.2.1"), Pool: "public"}
	given := ipam.Decision{VIPs: []ipam.Assignment{vip}}
	refused := ipam.Decision{Refused: true, Denials: []ipam.Denial{{Reason: lb.PoolExhausted, Pool: "public", Family: lb.IPv4}}}
	stated := func(svc *v1.Service) {
		svc.Status.LoadBalancer.Ingress = ingressOf([]netip.Addr{vip.Addr})
		svc.Status.Conditions = []metav1.Condition{conditionOf(svc, given, noon)}
		svc.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	}
	const ingress = `"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP"}]}`
	condition := func(status, at, reason, message string) string {
		return `"conditions":[{"type":"plinth.dev/VIPAllocated","status":"` + status + `","lastTransitionTime":"` + at + `","reason":"` + reason + `","message":"` + message + `"}]`
	}
	for _, tt := range []struct {
		name     string
		svc      *v1.Service
		decision ipam.Decision
		want     string
	}{
		{"the first VIP, with the finalizer", loadBalancerService(), given,
			`{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"],"resourceVersion":"7","uid":"u1"},"status":{` +
				condition("True", "2026-01-01T12:00:01Z", "Allocated", "192.0.2.1 of pool public") + `,` + ingress + `}}`},
		{"no finalizer on a Service of our class", loadBalancerService(func(svc *v1.Service) { c := lb.LoadBalancerClass; svc.Spec.LoadBalancerClass = &c }), given,
			`{"metadata":{"resourceVersion":"7","uid":"u1"},"status":{` + condition("True", "2026-01-01T12:00:01Z", "Allocated", "192.0.2.1 of pool public") + `,` + ingress + `}}`},
		{"nothing is missing", loadBalancerService(stated), given, ""},
		{"refused", loadBalancerService(), refused,
			`{"metadata":{"resourceVersion":"7","uid":"u1"},"status":{` + condition("False", "2026-01-01T12:00:01Z", "PoolExhausted", "pool public: PoolExhausted (IPv4)") + `}}`},
		{"somebody overwrote it", loadBalancerService(stated, func(svc *v1.Service) { svc.Status.LoadBalancer.Ingress[0].IP = "10.10.1.1" }), given,
			`{"metadata":{"resourceVersion":"7","uid":"u1"},"status":{` + ingress + `}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if patch := statusPatch(tt.svc, tt.decision, announcement{}, noon.Add(time.Second)); patch != nil {
				data, err := json.Marshal(patch)
				if err != nil {
					t.Fatal(err)
				}
				got = string(data)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestConditionMessageIsBounded(t *testing.T) {
	d := ipam.Decision{Refused: true}
	for range 500 {
		d.Denials = append(d.Denials, ipam.Denial{Reason: lb.PoolIsDraining, Pool: "a-pool-with-a-name"})
	}
	if s := inventory.ShortenText(d.String(), maxCondition); len(s) > maxCondition || !strings.HasSuffix(s, "…") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	d.Denials = d.Denials[:200]
	if s := conditionOf(loadBalancerService(), d, noon).Message; strings.Count(s, "PoolIsDraining") != 200 {
		t.Errorf("of two hundred pools not all are named: %s", s)
	}
}

func TestPausesBeforeAStatusIsSetRightDouble(t *testing.T) {
	var got []time.Duration
	for n := range 9 {
		got = append(got, pauseBefore(n)/time.Second)
	}
	if want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("%v seconds, want %v", got, want)
	}
}

// failing has the API server fail so many requests of a kind.
func (h *held) failing(times int, verb, resource string) {
	h.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		times--
		return times >= 0, nil, apierrors.NewInternalError(errors.New("the store does not answer"))
	})
}

// TestServiceThatComesAgainGetsItsVIPThoughTheAPIServerFails has a lower address free.
func TestServiceThatComesAgainGetsItsVIPThoughTheAPIServerFails(t *testing.T) {
	h := newHeld(t)
	at := noon
	h.now = func() time.Time { return at }
	h.settled(0)
	svc, vip := loadBalancerService(), []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	if d, err := h.assign(t.Context(), svc); err != nil || !slices.Equal(d.Addrs(), vip) {
		t.Fatal(d, err)
	}
	for _, leaves := range []*v1.Service{h.svc[0], svc} {
		if err := h.clearAndRelease(t.Context(), keyOf(leaves), string(leaves.UID)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(ipam.QuarantineTime / 2)
	}
	h.departed()
	<-h.quarantineChanged // of the two that left
	h.failing(1, "create", "ipaddresses")
	if d, err := h.assign(t.Context(), svc); err == nil {
		t.Fatalf("the API server fails, and it is given %v", d)
	}
	select {
	case <-h.quarantineChanged:
	default:
		t.Error("that the address rests on is not written down: it may just have been left out")
	}
	if d, err := h.assign(t.Context(), svc); err != nil || !slices.Equal(d.Addrs(), vip) {
		t.Errorf("it had %v before, and gets %v, %v", vip, d, err)
	}
}

func TestServiceThatTheAPIServerFailedIsServedTheNextTime(t *testing.T) {
	h := newHeld(t)
	h.cluster.Recorder = record.NewFakeRecorder(9)
	h.failing(1, "create", "ipaddresses")
	if err := h.reconcile(t.Context(), "d/a"); !apierrors.IsInternalError(err) {
		t.Errorf("the API server fails, and %v is heard of it", err)
	}
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	h.agree(h.key(0))
	now, err := h.client.CoreV1().Services("d").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if told, _ := h.told(h.svc[0]); statusPatch(now, told, announcement{}, h.now()) != nil {
		t.Errorf("its status is %v", now.Status)
	}
}

// TestServiceIsToldWhatTheAPIServerFails has each write fail twice, and then succeed.
func TestServiceIsToldWhatTheAPIServerFails(t *testing.T) {
	for name, tt := range map[string]struct {
		verb, resource string
		svc            func(*held) *v1.Service
	}{
		"its claim":     {"create", "ipaddresses", func(h *held) *v1.Service { return h.svc[0] }},
		"its status":    {"patch", "services", func(h *held) *v1.Service { return h.svc[0] }},
		"its finalizer": {"patch", "services", func(h *held) *v1.Service { h.settled(0); return leaving(showing(h.svc[0], h.addr.String())) }},
	} {
		t.Run(name, func(t *testing.T) {
			h, events := newHeld(t), record.NewFakeRecorder(9)
			h.cluster.Recorder, h.cluster.Reports = events, event.NewReports(events)
			h.tells(tt.svc(h))
			h.failing(2, tt.verb, tt.resource)
			for range 2 {
				if err := h.reconcile(t.Context(), "d/a"); !apierrors.IsInternalError(err) {
					t.Fatalf("the API server fails, and %v is heard of it", err)
				}
			}
			if open := h.cluster.Reports.Open(); open != 1 {
				t.Errorf("%d things are wrong, want 1", open)
			}
			if err := h.reconcile(t.Context(), "d/a"); err != nil || h.cluster.Reports.Open() > 0 {
				t.Errorf("%v, and %d things are wrong still", err, h.cluster.Reports.Open())
			}
			close(events.Events)
			told := 0
			for e := range events.Events {
				if strings.HasPrefix(e, "Warning SyncLoadBalancerFailed ") {
					told++
				}
			}
			if told != 1 {
				t.Errorf("it was told %d times, want once", told)
			}
		})
	}
}

func TestDecisionIsToldOnceThoughSomebodyElseWasFaster(t *testing.T) {
	h, events := newHeld(t), record.NewFakeRecorder(9)
	h.cluster.Recorder = events
	conflicts := 1
	h.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(v1.Resource("services"), "a", errOtherService)
	})
	if err := h.reconcile(t.Context(), "d/a"); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	close(events.Events)
	var told []string
	for e := range events.Events {
		told = append(told, e)
	}
	if want := []string{"Normal Allocated 192.0.2.0 of pool public"}; !slices.Equal(told, want) {
		t.Errorf("it was told %q, want %q", told, want)
	}
}
