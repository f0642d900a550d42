package cluster

import (
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

func TestOnlyWhatAnnouncementsDependOnIsAChange(t *testing.T) {
	for _, tt := range []struct {
		what   string
		object runtime.Object
		change func(runtime.Object)
		same   bool
	}{
		{"a heartbeat", node("w1", v1.ConditionTrue, nil), func(o runtime.Object) {
			o.(*v1.Node).Status.Conditions[0].LastHeartbeatTime = metav1.Now()
		}, true},
		{"a message of the agent's", node("w1", v1.ConditionTrue, nil), func(o runtime.Object) {
			o.(*v1.Node).Status.Conditions[1].Message = "routes 1/1, sessions 1/1"
		}, true},
		{"no session is up any more", node("w1", v1.ConditionTrue, nil), func(o runtime.Object) {
			c := &o.(*v1.Node).Status.Conditions[1]
			c.Status, c.Message = v1.ConditionFalse, "routes 1/1, sessions 0/2"
		}, false},
		{"it is excluded", node("w1", v1.ConditionTrue, nil), func(o runtime.Object) {
			o.(*v1.Node).Labels = map[string]string{v1.LabelNodeExcludeBalancers: ""}
		}, false},
		{"a status", service("web", ""), func(o runtime.Object) {
			o.(*v1.Service).Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		}, true},
		{"a policy", service("web", ""), func(o runtime.Object) {
			o.(*v1.Service).Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}, false},
		{"a class", service("web", ""), func(o runtime.Object) { o.(*v1.Service).Spec.LoadBalancerClass = new("x") }, false},
		{"a label", service("web", ""), func(o runtime.Object) { o.(*v1.Service).Labels = map[string]string{"tier": "gold"} }, false},
		{"the machine that it asks for", service("web", ""), func(o runtime.Object) {
			o.(*v1.Service).Annotations = map[string]string{lb.HomeAnnotation: "w1"}
		}, false},
		{"what an agent says of its links", node("w1", v1.ConditionTrue, nil), func(o runtime.Object) {
			o.(*v1.Node).Status.Conditions[1].Message = "routes 1/1, sessions 1/1; on link 192.168.1.0/24 NoCarrier"
		}, false},
		{"an annotation of a slice", slice("web", "web", "IPv4"), func(o runtime.Object) { o.(*discoveryv1.EndpointSlice).Annotations = map[string]string{"a": "b"} }, true},
		{"a label of a slice that its proxy does not follow then", slice("web", "web", "IPv4"), func(o runtime.Object) { o.(*discoveryv1.EndpointSlice).Labels[lb.HeadlessLabel] = "" }, false},
		{"an endpoint", slice("web", "web", "IPv4", endpoint("10.0.0.1", "w1", true, true, false)), func(o runtime.Object) {
			o.(*discoveryv1.EndpointSlice).Endpoints[0].Conditions.Ready = new(false)
		}, false},
	} {
		now := tt.object.DeepCopyObject()
		if tt.change(now); same(tt.object, now) != tt.same {
			t.Errorf("%s: the same is %v", tt.what, !tt.same)
		}
	}
}

func TestAnAgentWithoutASessionIsBelievedWhileItsKubeletIsHeardOf(t *testing.T) {
	for _, tt := range []struct {
		kubelet, agent v1.ConditionStatus
		message        string
		want           bool
	}{
		{v1.ConditionTrue, v1.ConditionFalse, "routes 1/1, sessions 0/2: tor-r1/10.1.0.1 NoAnswer, tor-r2/10.2.0.1 NoAnswer", true},
		{v1.ConditionFalse, v1.ConditionFalse, "routes 1/1, sessions 0/2", true},
		{v1.ConditionUnknown, v1.ConditionFalse, "routes 1/1, sessions 0/2", false},
		{v1.ConditionTrue, v1.ConditionFalse, "routes 1/1, sessions 1/2: tor-r1/10.1.0.1 NoAnswer", false},
		{v1.ConditionTrue, v1.ConditionFalse, "routes 1/1, sessions 0/2 with all pod CIDRs: tor-r1/10.1.0.1 lacks pod CIDRs", false},
		{v1.ConditionTrue, v1.ConditionFalse, "another version says something else", false},
		{v1.ConditionTrue, v1.ConditionTrue, "routes 0/0, sessions 0/0", false},
	} {
		n := node("w1", tt.kubelet, nil)
		n.Status.Conditions[1].Status, n.Status.Conditions[1].Message = tt.agent, tt.message
		if got := nodeOf(n).NoSession; got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestSessionsThatAreSaidToBeDownAreThoseThatAnnounceNothing(t *testing.T) {
	n := node("w1", v1.ConditionTrue, nil)
	n.Status.Conditions[1].Status = v1.ConditionFalse
	n.Status.Conditions[1].Message = "routes 1/1, sessions 1/4: tor-r1/10.1.0.1 NoAnswer, tor-r1/2001:db8::1 lacks pod CIDRs, tor-r2/fe80::1%eth0 Refused"
	want := []preview.SessionEnd{{Router: "tor-r1", Peer: netip.MustParseAddr("10.1.0.1")}, {Router: "tor-r2", Peer: netip.MustParseAddr("fe80::1%eth0")}}
	if got := nodeOf(n).Down; !slices.Equal(got, want) {
		t.Errorf("down are %v", got)
	}
	for what, change := range map[string]func(*v1.Node){
		"its kubelet is not heard of": func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown },
		"there are more":              func(n *v1.Node) { n.Status.Conditions[1].Message += ", and 2 more" },
		"it has an older inventory":   func(n *v1.Node) { n.Status.Conditions[1].Message += "; the accepted inventory: of a newer format" },
	} {
		other := n.DeepCopy()
		if change(other); len(nodeOf(other).Down) > 0 {
			t.Errorf("%s, and down are %v", what, nodeOf(other).Down)
		}
	}
}

func TestAnAgentHasRunWhereANodeHasItsCondition(t *testing.T) {
	n := node("w1", v1.ConditionUnknown, nil)
	if nodeOf(n).NoAgent {
		t.Error("it has, and its kubelet is not heard of any more")
	}
	n.Status.Conditions = n.Status.Conditions[:1]
	if !nodeOf(n).NoAgent {
		t.Error("it has not")
	}
}

func TestWhatIsAroundVIPsThatAreKnownToBeHeld(t *testing.T) {
	r := reader(t, node("w1", v1.ConditionTrue, nil), service("web", ""), service("none", ""),
		slice("web", "web", "IPv4", endpoint("10.0.0.1", "w1", true, true, false)), held("203.0.113.9", "none", "uid-of-x"))
	web, vip := lb.ServiceKey{Namespace: "default", Name: "web"}, netip.MustParseAddr("203.0.113.1")
	got, err := r.With(t.Context(), map[lb.ServiceKey][]netip.Addr{web: {vip}, {Namespace: "default", Name: "gone"}: {vip}})
	if err != nil || len(got.Services) != 1 || got.Services[0].Key != web || got.Services[0].VIPs[0] != vip || got.Services[0].Endpoints[lb.IPv4].Ready["w1"] != 1 || len(got.Nodes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
