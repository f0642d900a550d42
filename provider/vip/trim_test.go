package vip

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
)

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// full fills in all that the API server does and people may.
func full(svc *v1.Service) {
	on := true
	svc.Labels = map[string]string{"tier": "web"}
	svc.Annotations = map[string]string{"plinth.dev/pool": "p", "metallb.io/allow-shared-ip": "k", v1.LastAppliedConfigAnnotation: "{}"}
	svc.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
	svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.96.0.1", []string{"10.96.0.1"}
	svc.Spec.SessionAffinity = v1.ServiceAffinityNone
	svc.Spec.AllocateLoadBalancerNodePorts = &on
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].Name, svc.Spec.Ports[i].NodePort, svc.Spec.Ports[i].TargetPort = "p", 30000, intstr.FromInt32(8080)
	}
	mode := v1.LoadBalancerIPModeVIP
	svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &mode}}
	svc.Status.Conditions = []metav1.Condition{{Type: lb.VIPAllocated, Status: metav1.ConditionTrue, Reason: reasonAllocated, Message: "m"}}
}

func keptOf(t *testing.T, svc *v1.Service) *v1.Service {
	t.Helper()
	obj, err := TrimService(svc.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*v1.Service)
}

func TestWhatIsKeptOfAServiceAsksForTheSame(t *testing.T) {
	class := func(svc *v1.Service) {
		c := lb.LoadBalancerClass
		svc.Spec.LoadBalancerClass, svc.Spec.LoadBalancerIP = &c, "192.0.2.7"
	}
	for name, change := range map[string]func(*v1.Service){
		"as it comes":     func(*v1.Service) {},
		"local":           local,
		"without backend": func(svc *v1.Service) { local(svc); svc.Spec.Selector = nil },
		"dual stack":      dual(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol),
		"of our class":    class,
		"being deleted":   func(svc *v1.Service) { svc.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		svc := loadBalancerService(full, change)
		kept := keptOf(t, svc)
		if diff := cmp.Diff(requestOf(svc), requestOf(kept), sameAddr); diff != "" {
			t.Errorf("%s: it asks otherwise:\n%s", name, diff)
		}
		b := New(Options{})
		if b.isOurs(svc) != b.isOurs(kept) || ofOurClass(svc) != ofOurClass(kept) || needsFinalizer(svc) != needsFinalizer(kept) {
			t.Errorf("%s: it is served otherwise", name)
		}
		if diff := cmp.Diff(svc.Status, kept.Status); diff != "" {
			t.Errorf("%s: its status differs:\n%s", name, diff)
		}
	}
}

func TestWhatNobodyLooksAtIsNotKept(t *testing.T) {
	kept := keptOf(t, loadBalancerService(full))
	want := loadBalancerService(full)
	delete(want.Annotations, v1.LastAppliedConfigAnnotation)
	want.ManagedFields, want.Spec = nil, v1.ServiceSpec{
		Type: v1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.1"}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
		Ports: []v1.ServicePort{{Protocol: v1.ProtocolTCP, Port: 443}, {Protocol: v1.ProtocolTCP, Port: 80}, {Protocol: v1.ProtocolUDP, Port: 443}},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
}

func TestOfAServiceThatIsNoLoadBalancerItsNameIsKept(t *testing.T) {
	inside := func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP }
	bare := func(svc *v1.Service) { svc.Finalizers, svc.Status = nil, v1.ServiceStatus{} }
	kept := keptOf(t, loadBalancerService(full, inside, bare))
	want := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s", UID: "u1", ResourceVersion: "7"}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.1"}}}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
	if was := keptOf(t, loadBalancerService(full, inside)); was.Annotations["plinth.dev/pool"] != "p" || !servicehelper.HasLBFinalizer(was) {
		t.Errorf("one that was a load balancer until now lost what it has: %v", was)
	}
}
