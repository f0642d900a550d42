package cluster

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/claim"
)

func reader(t *testing.T, objects ...runtime.Object) *Reader {
	t.Helper()
	client := fake.NewClientset(objects...)
	f := informers.NewSharedInformerFactory(client, 0)
	r, err := New(claim.Client{Kube: client, Namespace: "kube-system"}, f)
	if err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	return r
}

func node(name string, ready v1.ConditionStatus, labels map[string]string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
		{Type: v1.NodeReady, Status: ready}, {Type: lb.FabricReady, Status: v1.ConditionTrue},
	}}}
}

func named(name string) inventory.NodeIdentity { return inventory.NodeIdentity{Name: name} }

func TestAMachineServesByTheWordOfItsKubeletAndItsAgent(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(*v1.Node)
		silent bool
	}{
		{"all is well", func(*v1.Node) {}, false},
		{"its kubelet is not ready, and its agent goes on", func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse }, false},
		{"one of two routers is down", func(n *v1.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason = v1.ConditionFalse, lb.FabricDegraded
		}, false},
		{"its sessions are down", func(n *v1.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason = v1.ConditionFalse, lb.FabricSessionsDown
		}, true},
		{"it is cut off", func(n *v1.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason = v1.ConditionFalse, lb.FabricCutOff
		}, true},
		{"its agent has never said anything", func(n *v1.Node) { n.Status.Conditions = n.Status.Conditions[:1] }, true},
	} {
		n := node("w1", v1.ConditionTrue, nil)
		if tt.change(n); nodeOf(n).Silent != tt.silent {
			t.Errorf("%s: %+v", tt.what, nodeOf(n))
		}
	}
}

func service(name string, policy v1.ServiceExternalTrafficPolicy) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-of-" + "x"},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: policy},
	}
}

func held(vip, by, uid string) *networkingv1.IPAddress {
	return claim.New(netip.MustParseAddr(vip), "public", lb.ServiceKey{Namespace: "default", Name: by}, uid)
}

func slice(name, of, family string, all ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressType(family), Endpoints: all,
	}
}

func endpoint(addr, node string, ready, serving, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}}
}

func TestWhatTheAPIServerSays(t *testing.T) {
	foreign := service("foreign", "")
	foreign.Spec.LoadBalancerClass = new("example.com/other")
	r := reader(t,
		node("w1", v1.ConditionTrue, nil), node("w2", v1.ConditionUnknown, nil), node("w3", v1.ConditionFalse, map[string]string{v1.LabelNodeExcludeBalancers: ""}),
		service("web", v1.ServiceExternalTrafficPolicyLocal), service("idle", ""), service("none", ""), service("anew", ""), foreign,
		held("203.0.113.1", "web", "uid-of-x"), held("2001:db8::1", "web", "uid-of-x"), held("203.0.113.2", "idle", ""),
		held("203.0.113.3", "anew", "uid-of-one-before"), held("203.0.113.4", "foreign", "uid-of-x"), held("203.0.113.5", "gone", "uid-of-x"),
		slice("web-4", "web", "IPv4", endpoint("10.0.0.1", "w1", true, true, false), endpoint("10.0.0.2", "w1", false, true, true), endpoint("10.0.0.3", "w2", false, false, false)),
		slice("web-4-split", "web", "IPv4", endpoint("10.0.0.1", "w1", false, true, true), endpoint("10.0.0.3", "w2", true, true, false)),
		slice("web-6", "web", "IPv6", endpoint("fd00::1", "w2", true, true, false)),
		slice("other", "none", "IPv4", endpoint("10.0.0.9", "w1", true, true, false)),
	)
	got, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := preview.Cluster{
		Nodes: map[string]preview.Node{"w1": {Identity: named("w1")}, "w2": {Identity: named("w2"), Silent: true}, "w3": {Identity: named("w3"), Excluded: true}},
		Services: []preview.Service{
			{Key: lb.ServiceKey{Namespace: "default", Name: "idle"}, VIPs: []netip.Addr{netip.MustParseAddr("203.0.113.2")}},
			{Key: lb.ServiceKey{Namespace: "default", Name: "web"}, VIPs: []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("203.0.113.1")}, LocalTraffic: true,
				Endpoints: map[lb.Family]advertise.Spread{
					lb.IPv4: {Ready: map[string]int{"w1": 1, "w2": 1}, Ending: map[string]int{"w1": 1}},
					lb.IPv6: {Ready: map[string]int{"w2": 1}, Ending: map[string]int{}},
				}},
		},
	}
	got.Taken, got.Endpoints = nil, nil // another test's
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// What the controller and plinth think of endpoints is what agents do, and both read the cache and lists alike.
func TestAnEndpointThatTheProxyOfItsServiceDoesNotFollowIsNotCounted(t *testing.T) {
	labelled := func(o metav1.Object, keys ...string) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		for _, k := range keys {
			labels[k] = ""
		}
		o.SetLabels(labels)
	}
	for _, tt := range []struct {
		what           string
		service, slice []string
		want           advertise.Spread
	}{
		{"no label", nil, nil, advertise.Spread{Ready: map[string]int{"w1": 1}, Ending: map[string]int{}}},
		{"a slice of a headless Service", nil, []string{lb.HeadlessLabel}, advertise.Spread{NotFollowed: true}},
		{"a slice of another proxy", nil, []string{lb.ServiceProxyLabel}, advertise.Spread{NotFollowed: true}},
		{"both of another proxy", []string{lb.ServiceProxyLabel}, []string{lb.ServiceProxyLabel}, advertise.Spread{Ready: map[string]int{"w1": 1}, Ending: map[string]int{}}},
	} {
		svc, s := service("web", ""), slice("web-4", "web", "IPv4", endpoint("10.0.0.1", "w1", true, true, false))
		labelled(svc, tt.service...)
		labelled(s, tt.slice...)
		cached, err := reader(t, svc, s, held("203.0.113.1", "web", "uid-of-x")).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listed, err := List(t.Context(), fake.NewClientset(svc, s, held("203.0.113.1", "web", "uid-of-x")))
		if err != nil {
			t.Fatal(err)
		}
		for how, c := range map[string]preview.Cluster{"cached": cached, "listed": listed} {
			if d := cmp.Diff(tt.want, c.Services[0].Endpoints[lb.IPv4], cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s, %s: %s", tt.what, how, d)
			}
		}
	}
}

// TestTheAddressesOfAClusterAreThoseOfItsPodsNodesAndServices are those that no pool may have.
func TestTheAddressesOfAClusterAreThoseOfItsPodsNodesAndServices(t *testing.T) {
	n := node("w1", v1.ConditionTrue, nil)
	n.Spec.PodCIDRs = []string{"10.244.1.0/24", "fd00:1::/64"}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.0.11"}, {Type: v1.NodeHostName, Address: "10.10.0.99"}}
	inside, headless := service("web", ""), service("headless", "")
	inside.Spec.ClusterIPs, headless.Spec.ClusterIPs = []string{"10.96.0.7", "fd00:96::7"}, []string{v1.ClusterIPNone}
	inside.Spec.ExternalIPs = []string{"192.0.2.7"}
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	r := reader(t, n, inside, headless, cidr, slice("web", "web", "IPv4", endpoint("172.16.0.1", "w1", true, true, false), endpoint("192.0.2.1", "", true, true, false)))
	c, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, taken := range c.Taken {
		got = append(got, taken.Prefix.String()+" "+taken.Who)
	}
	want := []string{"fd00:1::/64 the pods of node w1", "10.96.0.0/16 ServiceCIDR kubernetes", "10.244.1.0/24 the pods of node w1", "10.10.0.11/32 node w1", "10.96.0.7/32 service default/web inside the cluster",
		"172.16.0.1/32 an endpoint of service default/web on node w1", "192.0.2.7/32 the externalIPs of service default/web", "fd00:96::7/128 service default/web inside the cluster"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"w1": 1}, c.Endpoints); d != "" {
		t.Error(d)
	}
	if c, err := r.With(t.Context(), nil); err != nil || c.Taken != nil || c.Endpoints != nil {
		t.Errorf("nobody asked for them: %v, %v", c.Taken, err)
	}
}

func TestWhatIsKeptOfAnEndpointSliceSaysTheSame(t *testing.T) {
	whole := slice("web-4", "web", "IPv4", endpoint("10.0.0.1", "w1", true, true, false))
	whole.Labels["kubernetes.io/managed-by"], whole.ManagedFields = "x", []metav1.ManagedFieldsEntry{{}}
	whole.Endpoints[0].Addresses = append(whole.Endpoints[0].Addresses, "10.0.0.2")
	whole.Endpoints[0].Zone = new("z")
	kept, err := trim(whole.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	s := kept.(*discoveryv1.EndpointSlice)
	if len(s.Labels) != 1 || s.ManagedFields != nil || len(s.Endpoints[0].Addresses) != 1 || s.Endpoints[0].Zone != nil {
		t.Errorf("kept: %+v", s)
	}
	if same, err := trim("no slice"); same != "no slice" || err != nil {
		t.Error(same, err)
	}
}
