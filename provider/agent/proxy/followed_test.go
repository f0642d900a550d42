package proxy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

const (
	proxyNameLabel = "service.kubernetes.io/service-proxy-name"
	headlessLabel  = "service.kubernetes.io/headless"
)

// exposed is a Service with one VIP and one ready endpoint, as an agent of nuc1 follows them, in front of a kube-proxy that has rules for
// nothing.
type exposed struct {
	catalog *offers.Index
	gate    *Gate
	now     time.Time
	service *offers.Service
	slice   *offers.EndpointSlice
}

func newExposed() *exposed {
	f := &exposed{catalog: offers.NewIndex(), gate: NewGate(&rules{}, func() {}), now: time.Unix(1_000_000, 0)}
	f.catalog.ClaimChanged("", nil, &offers.Claim{VIP: askedVIP, Holders: []lb.ServiceKey{lb.ServiceKey{Namespace: "prod", Name: "web"}}, UID: "1"})
	return f
}

// labelled has a Service and its EndpointSlice bear labels, and returns its offer as it is planned with.
func (f *exposed) labelled(ofService, ofSlice map[string]string) advertise.Offer {
	on := "nuc1"
	s := offers.ServiceOf(nil)(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", UID: "1", Labels: ofService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: askedVIP.String()}}}},
	})
	labels := map[string]string{discoveryv1.LabelServiceName: "web"}
	for k, v := range ofSlice {
		labels[k] = v
	}
	slice := offers.EndpointSliceOf("nuc1")(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.9"}, NodeName: &on}},
	})
	f.catalog.ServiceChanged("prod/web", f.service, &s)
	f.catalog.SliceChanged("prod/web-1", f.slice, &slice)
	f.service, f.slice = &s, &slice
	return f.offered()
}

// offered is the offer as it is planned with now.
func (f *exposed) offered() advertise.Offer {
	in := plan.Inputs{Offers: f.catalog.All()}
	f.gate.Apply(&in, f.now)
	f.gate.Observe(f.planned(in.Passed), f.gate.last.with, f.now)
	o, _ := in.Passed.Next(advertise.Offer{VIP: askedVIP})
	return o
}

// planned is a plan that lacks nothing but kube-proxy's rules.
func (f *exposed) planned(passed sorted.List[advertise.Offer]) plan.Plan {
	var held []advertise.Refusal
	for o := range passed.All() {
		if o.RulesPending && !o.RulesLost {
			held = append(held, advertise.Refusal{Service: o.Service, VIP: o.VIP, Reason: lb.ProxyRulesPending})
		}
	}
	return plan.Plan{Refused: sorted.Of(held...)}
}

// waits has the bound pass.
func (f *exposed) waits() advertise.Offer {
	f.now = f.now.Add(RulesBound)
	return f.offered()
}

func TestAServiceThatKubeProxyLeavesAloneIsNeverWaitedFor(t *testing.T) {
	for what, labels := range map[string]map[string]string{
		"another proxy":                      {proxyNameLabel: "other"},
		"another proxy that is not named":    {proxyNameLabel: ""},
		"the label of headless Services":     {headlessLabel: ""},
		"both":                               {proxyNameLabel: "other", headlessLabel: ""},
		"the label of headless with a value": {headlessLabel: "true"},
	} {
		f := newExposed()
		if o := f.labelled(labels, nil); o.RulesPending || o.Endpoints.Any != 1 {
			t.Errorf("%s: %+v", what, o)
		}
		if o := f.waits(); o.RulesPending || len(f.gate.overdue)+len(f.gate.last.questions)+len(f.gate.last.passing) > 0 {
			t.Errorf("%s: once the bound is over %+v, overdue %v, asked %v, looked for %v", what, o, f.gate.overdue, f.gate.last.questions, f.gate.last.passing)
		}
	}
}

func TestAnEndpointSliceThatTheProxyOfAServiceDoesNotFollowDoesNotCount(t *testing.T) {
	other, headless := map[string]string{proxyNameLabel: "other"}, map[string]string{headlessLabel: ""}
	for _, tt := range []struct {
		what           string
		service, slice map[string]string
		counts         bool
	}{
		{"neither is labelled", nil, nil, true},
		{"the slice is of another proxy", nil, other, false},
		{"the slice is of a headless Service", nil, headless, false},
		{"both are of another proxy", other, other, true},
		{"a Service of another proxy, and a slice that nobody has labelled yet", other, nil, true},
		{"a Service of another proxy, and a slice of a headless one", other, headless, false},
		{"a Service that is labelled headless", headless, nil, true},
		{"a Service and a slice that are labelled headless", headless, headless, false},
	} {
		o := newExposed().labelled(tt.service, tt.slice)
		if counts := o.Endpoints.Any == 1 && o.Endpoints.Local == 1; counts != tt.counts {
			t.Errorf("%s: %+v", tt.what, o.Endpoints)
		}
	}
}

func TestTheLabelsOfALiveServiceCountAtOnce(t *testing.T) {
	other := map[string]string{proxyNameLabel: "other"}
	f := newExposed()
	if o := f.labelled(nil, nil); !o.RulesPending || len(f.gate.last.questions) != 1 {
		t.Fatalf("of kube-proxy: %+v, asked %v", o, f.gate.last.questions)
	}
	f.now = f.now.Add(askEvery)
	if o := f.labelled(other, nil); o.RulesPending || len(f.gate.last.questions) > 0 {
		t.Fatalf("once the label is there: %+v, asked %v", o, f.gate.last.questions)
	}
	f.waits()
	if o := f.labelled(nil, nil); !o.RulesPending || len(f.gate.last.questions) != 1 {
		t.Fatalf("once the label is gone: %+v, asked %v", o, f.gate.last.questions)
	}
	if f.waits(); len(f.gate.overdue) != 1 {
		t.Fatalf("kube-proxy has no rules for long: overdue %v", f.gate.overdue)
	}
	f.now = f.now.Add(askEvery)
	if f.labelled(other, other); len(f.gate.overdue) > 0 {
		t.Fatalf("once the label is there again: overdue %v", f.gate.overdue)
	}
}

// TestLabelsThatComeAndGoLeaveNothingBehind is the law over all that a Service and its EndpointSlice can have borne before: what counts
// is what they bear now, and of what kube-proxy leaves alone nothing is asked.
func TestLabelsThatComeAndGoLeaveNothingBehind(t *testing.T) {
	draw := func(t *rapid.T, of string) map[string]string {
		labels := map[string]string{}
		for _, key := range []string{proxyNameLabel, headlessLabel} {
			if rapid.Bool().Draw(t, of+" bears "+key) {
				labels[key] = rapid.SampledFrom([]string{"", "other", "true"}).Draw(t, key)
			}
		}
		return labels
	}
	rapid.Check(t, func(t *rapid.T) {
		f := newExposed()
		for range rapid.IntRange(1, 10).Draw(t, "edits") {
			ofService, ofSlice := draw(t, "service"), draw(t, "slice")
			f.now = f.now.Add(rapid.SampledFrom([]time.Duration{askEvery, time.Second, RulesBound}).Draw(t, "later"))
			now, fresh := f.labelled(ofService, ofSlice), newExposed().labelled(ofService, ofSlice)
			if now.Frontend != fresh.Frontend || now.Endpoints != fresh.Endpoints {
				t.Fatalf("labels %v, of the slice %v: %+v, to an agent that begins %+v", ofService, ofSlice, now, fresh)
			}
			asked := len(f.gate.last.questions) + len(f.gate.last.passing) + len(f.gate.overdue)
			if gated := now.Frontend.Proxy == lb.KubeProxy && now.Endpoints.Any > 0; !gated && (now.RulesPending || asked > 0) {
				t.Fatalf("labels %v, of the slice %v: %+v, asked %+v, overdue %v", ofService, ofSlice, now, f.gate.last, f.gate.overdue)
			} else if gated && asked == 0 {
				t.Fatalf("labels %v, of the slice %v: nobody asks about %+v", ofService, ofSlice, now)
			}
		}
	})
}

// The state of the version before says nothing of proxies.
func TestWhatTheAgentBeforeAnnouncedForAnotherProxyStaysAnnounced(t *testing.T) {
	f := newExposed()
	f.gate.rules.Adopt(sorted.Of(aSavedOffer("web", askedVIP.String())))
	for _, labels := range []map[string]string{{proxyNameLabel: "other"}, {headlessLabel: ""}} {
		if o := f.labelled(labels, nil); o.RulesPending || o.Endpoints.Any != 1 {
			t.Errorf("labels %v: %+v", labels, o)
		}
	}
}
