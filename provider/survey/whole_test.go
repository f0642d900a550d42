package survey

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/lb"
)

// shelf is an API server with one machine that serves one Service, by the word of everybody.
func shelf(t *testing.T) *api {
	fixed := func(list runtime.Object, items ...runtime.Object) func() (runtime.Object, []runtime.Object) {
		return func() (runtime.Object, []runtime.Object) { return list.DeepCopyObject(), items }
	}
	s := bigSlice("web", 0)
	s.Endpoints = s.Endpoints[:1]
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
		Status: v1.ServiceStatus{LoadBalancer: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.168.50.1"}}}, Conditions: []metav1.Condition{{Type: "plinth.dev/VIPAllocated", Status: metav1.ConditionTrue}}},
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-1", Labels: map[string]string{labelName: nameAgent}},
		Spec:       v1.PodSpec{NodeName: "nuc1", Containers: []v1.Container{{Image: "agent:v1"}}}, Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	const core, namespaced = "/api/v1/", "/api/v1/namespaces/kube-system/"
	return &api{lists: map[string]func() (runtime.Object, []runtime.Object){
		namespaced + "configmaps": fixed(&v1.ConfigMapList{}, accepted(t, home, "shelf 1\n")...), namespaced + "pods": fixed(&v1.PodList{}, pod),
		core + "nodes": fixed(&v1.NodeList{}, bigNode("nuc1")), core + "services": fixed(&v1.ServiceList{}, svc),
		"/apis/networking.k8s.io/v1/ipaddresses":   fixed(&networkingv1.IPAddressList{}, claimOf("192.168.50.1", "web")),
		"/apis/discovery.k8s.io/v1/endpointslices": fixed(&discoveryv1.EndpointSliceList{}, s),
	}}
}

// TestTheWholeChainFromTheAPIServerToAnAgent has everybody but the agent say that all is well.
func TestTheWholeChainFromTheAPIServerToAnAgent(t *testing.T) {
	for says, want := range map[string]diagnose.Link{
		`{"ready":true,"sessions":[{"router":"gateway","up":true,"announced":["192.168.50.1/32"]}]}`: {Mark: diagnose.LinkOK, Text: "of 1 agent asked, 1 has it in the adj-RIB-out of a session: nuc1"},
		`{"ready":true,"sessions":[{"router":"gateway","up":true,"announced":[]}],"refusals":[{"service":"default/web","vip":"192.168.50.1","reason":"ProxyRulesPending"}]}`: {
			Mark: diagnose.LinkBroken, Text: "of 1 agent asked, 0 have it in the adj-RIB-out of a session; nuc1: 192.168.50.1: ProxyRulesPending",
		},
	} {
		apiServer := shelf(t)
		k := &kubelets{answer: func(_ string, data, _ io.WriteCloser) {
			_, _ = fmt.Fprintf(data, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(says), says)
		}}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/portforward") {
				k.ServeHTTP(w, r)
				return
			}
			apiServer.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		config := &rest.Config{Host: server.URL}
		reader, err := New(config, "kube-system")
		if err != nil {
			t.Fatal(err)
		}
		seen, err := reader.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		web := lb.ServiceKey{Namespace: "default", Name: "web"}
		chain := diagnose.WhyService(seen, web, nil)
		chain = diagnose.WhyService(seen, web, NewAsker(config, reader, 10268).Ask(t.Context(), seen.Agents, chain.Ask))
		last := chain.Links[len(chain.Links)-1]
		if last.Mark != want.Mark || last.Text != want.Text || chain.Well() != (want.Mark == diagnose.LinkOK) {
			t.Errorf("the agent says %s, and the chain is\n%+v", says, chain)
		}
	}
}
