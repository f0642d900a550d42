package survey

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// api answers lists as an API server does: in pages, in protobuf, and only what a selector selects
// that is asked for by name here.
type api struct {
	lists map[string]func() (list runtime.Object, items []runtime.Object) // by path

	mu    sync.Mutex
	asked []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.String())
	a.mu.Unlock()
	of, ok := a.lists[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	list, items := of()
	begin, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	end := len(items)
	if limit > 0 && begin+limit < end {
		end = begin + limit
		m, _ := meta.ListAccessor(list)
		m.SetContinue(strconv.Itoa(end))
	}
	if err := meta.SetList(list, items[begin:end]); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, w); err != nil {
		panic(err)
	}
}

// serve starts the API and returns a reader of it.
func (a *api) serve(t testing.TB) Reader {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	r, err := New(&rest.Config{Host: server.URL}, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	racks           = 100
	machinesOfRack  = 16
	services        = 3000
	slicesOfService = 10_000 / services
)

// large is a cluster of 1,600 machines of 100 racks, with 3,000 Services of which 1,000 have four
// EndpointSlices, and Nodes of 15 kB.
func large(t testing.TB) *api {
	t.Helper()
	var inventories, nodes, pods, svcs, claims, slices []runtime.Object
	text := &strings.Builder{}
	fmt.Fprint(text, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: big}\nspec:\n  bgp: {asn: 65010}\n  pools: [{name: public, addresses: [203.0.112.0/20]}]\n  racks:\n")
	listed := ""
	for rack := range racks {
		listed += fmt.Sprintf("r%03d 1\n", rack)
		fmt.Fprintf(text, "    - name: r%03d\n      routers: [{name: tor-r%03d, address: 10.%d.0.1, asn: %d}]\n      machines:\n", rack, rack, rack, 65100+rack)
		for m := range machinesOfRack {
			name := fmt.Sprintf("r%03d-w%02d", rack, m)
			fmt.Fprintf(text, "        - {name: %s, addresses: [10.%d.0.%d]}\n", name, rack, m+10)
			nodes = append(nodes, bigNode(name))
			pods = append(pods, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "plinth-agent-" + name, Labels: map[string]string{labelName: nameAgent}},
				Spec:       v1.PodSpec{NodeName: name, Containers: []v1.Container{{Image: "plinth-agent:v1"}}},
				Status:     v1.PodStatus{Phase: v1.PodRunning},
			})
		}
	}
	inventories = accepted(t, text.String(), listed)
	for i := range services {
		name, vip := fmt.Sprintf("svc-%04d", i), fmt.Sprintf("203.0.%d.%d", 112+i/256, i%256)
		svcs = append(svcs, &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
			Status: v1.ServiceStatus{LoadBalancer: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: vip}}}, Conditions: []metav1.Condition{{Type: "plinth.dev/VIPAllocated", Status: metav1.ConditionTrue}}},
		})
		claims = append(claims, claimOf(vip, name))
		many := slicesOfService
		if i < 1000 {
			many++
		}
		for n := range many {
			slices = append(slices, bigSlice(name, n))
		}
	}
	fixed := func(list runtime.Object, items []runtime.Object) func() (runtime.Object, []runtime.Object) {
		return func() (runtime.Object, []runtime.Object) { return list.DeepCopyObject(), items }
	}
	const core, namespaced = "/api/v1/", "/api/v1/namespaces/kube-system/"
	return &api{lists: map[string]func() (runtime.Object, []runtime.Object){
		namespaced + "configmaps": fixed(&v1.ConfigMapList{}, inventories), namespaced + "pods": fixed(&v1.PodList{}, pods),
		core + "nodes": fixed(&v1.NodeList{}, nodes), core + "services": fixed(&v1.ServiceList{}, svcs),
		"/apis/networking.k8s.io/v1/ipaddresses":   fixed(&networkingv1.IPAddressList{}, claims),
		"/apis/discovery.k8s.io/v1/endpointslices": fixed(&discoveryv1.EndpointSliceList{}, slices),
	}}
}

func claimOf(vip, service string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{networkingv1.LabelManagedBy: "plinth.dev"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service}},
	}
}

// bigNode has the images and managed fields that a Node has.
func bigNode(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{
			fmt.Sprintf("registry.example.com/a/rather/long/name/of/an/image-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/a/rather/long/name/of/an/image-%d:v1", i),
		}, SizeBytes: 1 << 27})
	}
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:x":{}}`, 300))}}
	n.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue}, {Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue, Reason: "AsPlanned", Message: "routes 1/1, sessions 1/1"},
	}
	return n
}

func bigSlice(service string, n int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", service, n), Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i := range 5 {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+n, i, cmp.Or(len(service), 1))}, NodeName: new(fmt.Sprintf("r%03d-w%02d", (i*7+n)%racks, i)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}
