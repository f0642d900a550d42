package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
	"plinth.dev/plinth/routing"
)

// podAt is an endpoint on a machine, as an EndpointSlice has it.
func podAt(addr, machine string, ready, serving, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{addr}, NodeName: &machine,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
	}
}

// TestAMachineWhoseEndpointsTerminateIsTheWorseWayAndSaysSo goes through a rolling restart
// as the API server tells of it.
func TestAMachineWhoseEndpointsTerminateIsTheWorseWayAndSaysSo(t *testing.T) {
	here, there := podAt("10.244.0.5", "nuc1", true, true, false), podAt("10.244.1.5", "nuc2", true, true, false)
	hereEnds, thereEnds := podAt("10.244.0.5", "nuc1", false, true, true), podAt("10.244.1.5", "nuc2", false, true, true)
	c := offers.NewIndex()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", UID: "u"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal},
	}
	s := offers.ServiceOf(nil)(svc)
	c.ServiceChanged("", nil, &s)
	held := offers.ClaimOf(&networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "192.168.50.40", Labels: map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "prod", Name: "web"}},
	})
	c.ClaimChanged("", nil, &held)
	in := agenttest.SomeInputs(t)
	m, err := in.Machine()
	if err != nil {
		t.Fatal(err)
	}
	var announcer advertise.Planner
	var before *offers.EndpointSlice
	for _, step := range []struct {
		name   string
		all    []discoveryv1.Endpoint
		worse  bool
		silent bool
	}{
		{"it is ready here alone", []discoveryv1.Endpoint{here}, false, false},
		{"the new one is not ready yet", []discoveryv1.Endpoint{hereEnds}, false, false},
		{"the new one is ready elsewhere", []discoveryv1.Endpoint{hereEnds, there}, true, false},
		{"the new one ends too", []discoveryv1.Endpoint{hereEnds, thereEnds}, false, false},
		{"one is ready beside that which ends", []discoveryv1.Endpoint{hereEnds, podAt("10.244.0.6", "nuc1", true, true, false), there}, false, false},
		{"it has ended here", []discoveryv1.Endpoint{there}, false, true},
	} {
		now := offers.EndpointSliceOf("nuc1")(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "prod", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: step.all,
		})
		c.SliceChanged("web-1", before, &now)
		before = &now
		in.Passed = c.All()
		p := plan.Of(&announcer, in, m, plan.Phase{}, true, plan.Step{}, routing.Table{})
		ads, worse := 0, 0
		for _, s := range p.BGP.Sessions {
			for ad := range s.Advertisements.All() {
				ads++
				if ad.Communities.Has(inventory.GracefulShutdown) {
					worse++
				}
			}
		}
		if ads > 0 == step.silent || worse > 0 != step.worse {
			t.Errorf("%s: %d announced, %d of them as the worse way", step.name, ads, worse)
		}
		want := "[]"
		if step.worse {
			want = "[{192.168.50.40/32 LocalEndpointsTerminating}]"
		}
		if got := fmt.Sprint(shown(t, p).Demoted); got != want {
			t.Errorf("%s: /status says %s, not %s", step.name, got, want)
		}
	}
}

// shown is what /status shows of a plan.
func shown(t *testing.T, p plan.Plan) report.Status {
	t.Helper()
	a := New(Options{Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	a.planned.plan = p
	return statusOf(t, a)
}

// statusOf is what /status shows by now.
func statusOf(t *testing.T, a *Agent) (s report.Status) {
	t.Helper()
	a.publish()
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
