package survey

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
)

const home = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  pools: [{name: default, addresses: [192.168.50.0/26]}]
  racks:
    - name: shelf
      machines: [{name: nuc1, addresses: [192.168.1.11]}]
`

// accepted are the ConfigMaps by which an inventory is in force.
func accepted(t testing.TB, text, racks string) (out []runtime.Object) {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "t.yaml", Data: []byte(text)})
	if inv == nil {
		t.Fatal(problems)
	}
	one := func(name string, part *inventory.Inventory) *v1.ConfigMap {
		return &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"plinth.dev/accepted": inv.Name}, Annotations: map[string]string{"plinth.dev/generation": "1"}},
			Data:       map[string]string{"inventory.yaml": string(document.FormatAccepted(part))},
		}
	}
	common := one("plinth-accepted", inv.Common())
	common.Data["racks"] = racks
	for _, rack := range inv.Racks {
		out = append(out, one("plinth-accepted."+rack.Name+".1", inv.Slice(rack.Name)), one("plinth-accepted-"+rack.Name, inv.Slice(rack.Name)))
	}
	return append(out, common)
}

// noon is a time as the API server has it.
var noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// small is a cluster with one of everything.
func small(t *testing.T) *fake.Clientset {
	labelled := func(name string) map[string]string { return map[string]string{labelName: name} }
	waiting := []v1.ContainerStatus{{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	objects := append(accepted(t, home, "shelf 1\n"),
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "plinth-inventory-status"}, Data: map[string]string{
			"ready": "false", "generation": "7", "problems": "a: one\nb: two\n", "refused": "hash 3f9a1c0e5b7d2468", "nodesWithoutMachine": "x\ny", "machinesWithoutNode": "z", "trial": "nuc1 gateway other\n",
		}},
		&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "nuc1", Labels: map[string]string{v1.LabelNodeExcludeBalancers: "", labelControlPlane: ""}},
			Spec:       v1.NodeSpec{ProviderID: "plinth://nuc1", Taints: []v1.Taint{{Key: "plinth.dev/maintenance", Effect: v1.TaintEffectNoSchedule, TimeAdded: &noon}, {Key: inventory.OutOfServiceTaint}}},
			Status: v1.NodeStatus{VolumesAttached: []v1.AttachedVolume{{Name: "d"}}, Conditions: []v1.NodeCondition{
				{Type: v1.NodeReady, Status: v1.ConditionTrue, Message: "well"}, {Type: "plinth.dev/FabricReady", Status: v1.ConditionFalse, Reason: "SessionsDown", Message: "sessions 0/1", LastTransitionTime: noon},
			}},
		},
		&v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Labels: map[string]string{lb.ServiceProxyLabel: ""}}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, LoadBalancerClass: new("plinth.dev/bgp")},
			Status: v1.ServiceStatus{LoadBalancer: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.168.50.1"}}}, Conditions: []metav1.Condition{
				{Type: "plinth.dev/VIPAllocated", Status: metav1.ConditionTrue, Reason: "Allocated"}, {Type: "plinth.dev/VIPAnnounced", Status: metav1.ConditionFalse, Reason: "NoEndpoint", Message: "none"},
			}},
		},
		claimOf("192.168.50.1", "web"), bigSlice("web", 0),
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", Labels: labelled(nameAgent)}, Spec: v1.PodSpec{NodeName: "nuc1", Containers: []v1.Container{{Image: "agent:v1"}}}, Status: v1.PodStatus{ContainerStatuses: waiting}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm", Labels: labelled(nameController)}, Status: v1.PodStatus{Phase: v1.PodPending}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "placeless", Labels: labelled(nameController)}, Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/4 nodes are available"}}}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "evicted", Labels: labelled(nameAgent)}, Status: v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other", Labels: labelled("other")}},
	)
	return fake.NewClientset(objects...)
}

func TestWhatTheAPIServerSays(t *testing.T) {
	got, err := Reader{Client: small(t), Namespace: "kube-system"}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	web, vip := lb.ServiceKey{Namespace: "default", Name: "web"}, netip.MustParseAddr("192.168.50.1")
	want := diagnose.Observed{
		Edit: diagnose.Edit{Generation: "7", Problems: []string{"a: one", "b: two"}, Refused: "3f9a1c0e5b7d2468", Trial: []string{"nuc1 with gateway, other"}, NodesWithoutMachine: []string{"x", "y"}, MachinesWithoutNode: []string{"z"}},
		Nodes: []diagnose.Node{{
			NodeState: inventory.NodeState{NodeIdentity: inventory.NodeIdentity{Name: "nuc1", ProviderID: "plinth://nuc1"}, Ready: true, OutOfService: true, Volumes: 1},
			Excluded:  true, ControlPlane: true, Tainted: noon.Time,
			Kubelet: diagnose.Condition{Status: "True", Message: "well"}, Fabric: diagnose.Condition{Status: "False", Reason: "SessionsDown", Message: "sessions 0/1", Since: noon.Time},
		}},
		Services: []diagnose.Service{{
			Key: web, Class: "plinth.dev/bgp", Proxy: lb.UnnamedProxy, Shown: []netip.Addr{vip},
			Allocated: diagnose.Condition{Status: "True", Reason: "Allocated"}, Announced: diagnose.Condition{Status: "False", Reason: "NoEndpoint", Message: "none"},
		}},
		Claimed: []netip.Addr{vip}, Planned: true, Leader: &diagnose.Leader{Lease: "kube-system/cloud-controller-manager"},
		Agents:      []diagnose.Pod{{Name: "agent", Node: "nuc1", Image: "agent:v1", Pending: "ImagePullBackOff: no such image"}},
		Controllers: []diagnose.Pod{{Name: "ccm", Pending: "it is Pending"}, {Name: "placeless", Pending: "it cannot be scheduled: 0/4 nodes are available"}},
	}
	if got.Inventory == nil || got.Inventory.Name != "home" || len(got.Cluster.Services) != 1 || !got.Cluster.Nodes["nuc1"].Silent {
		t.Errorf("inventory %v, planned with %+v", got.Inventory, got.Cluster)
	}
	got.Inventory, got.Cluster = nil, want.Cluster
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

func TestAnEmptyClusterIsRead(t *testing.T) {
	got, err := Reader{Client: fake.NewClientset(), Namespace: "kube-system"}.Read(t.Context())
	if err != nil || got.Inventory != nil || got.Edit.Ready {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestWhatIsAcceptedAndCannotBeReadIsAFinding: all else is told, with what can be read of it.
func TestWhatIsAcceptedAndCannotBeReadIsAFinding(t *testing.T) {
	client := small(t)
	maps := client.CoreV1().ConfigMaps("kube-system")
	common, err := maps.Get(t.Context(), source.AcceptedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	common.Data["racks"] = "shelf 9\n"
	if _, err := maps.Update(t.Context(), common, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := Reader{Client: client, Namespace: "kube-system"}.Read(t.Context())
	if err != nil || got.Inventory == nil || got.Inventory.Name != "home" || len(got.Services) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	if want := "kubectl -n kube-system delete configmap -l plinth.dev/accepted"; !strings.HasSuffix(got.Unreadable, want) || !strings.Contains(got.Unreadable, "plinth-accepted.shelf.9") {
		t.Errorf("it says %q", got.Unreadable)
	}
}

// What a newer version wrote says something that is not known here, and all else is told.
func TestAClaimOfANewerVersionLeavesThePlanUnknown(t *testing.T) {
	client := small(t)
	claim, err := client.NetworkingV1().IPAddresses().Get(t.Context(), "192.168.50.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Annotations = map[string]string{inventory.AnnotationFormat: "99"}
	if _, err := client.NetworkingV1().IPAddresses().Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := Reader{Client: client, Namespace: "kube-system"}.Read(t.Context())
	if err != nil || got.Planned || len(got.NotKnown) != 1 || !strings.Contains(got.NotKnown[0], "ipaddress 192.168.50.1") || got.Inventory == nil {
		t.Errorf("%v, planned %t, not known %q", err, got.Planned, got.NotKnown)
	}
}

// A reader who may read all but pods of Plinth's namespace, or EndpointSlices, is told so; who may not
// read Nodes is told nothing else.
func TestWhatMayNotBeReadIsSaid(t *testing.T) {
	for resource, want := range map[string]string{
		"pods":           "whether the controller's pods run, and those of agents: pods is forbidden: jane may not list them",
		"endpointslices": "which VIPs nobody announces, and whether pools have addresses of the cluster: endpointslices is forbidden: jane may not list them",
		"servicecidrs":   "whether pools have addresses that cluster IPs are given from: servicecidrs is forbidden: jane may not list them",
		"nodes":          "",
	} {
		client := small(t)
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(v1.Resource(resource), "", errors.New("jane may not list them"))
		})
		got, err := Reader{Client: client, Namespace: "kube-system"}.Read(t.Context())
		switch {
		case want == "" && !apierrors.IsForbidden(errors.Unwrap(err)) && !strings.Contains(err.Error(), "jane may not list them"):
			t.Errorf("%s: %v", resource, err)
		case want != "" && (err != nil || strings.Join(got.NotKnown, "\n") != want || got.Planned != (resource != "endpointslices")):
			t.Errorf("%s: %v, planned %t, not known %q", resource, err, got.Planned, got.NotKnown)
		}
	}
}

// TestASummaryOf1600MachinesTakes21Requests counts them.
func TestASummaryOf1600MachinesTakes21Requests(t *testing.T) {
	api := large(t)
	seen, err := api.serve(t).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(api.asked) > 21 {
		t.Errorf("%d requests:\n%s", len(api.asked), strings.Join(api.asked, "\n"))
	}
	if len(seen.Nodes) != 1600 || len(seen.Services) != 3000 || len(seen.Cluster.Services) != 3000 || len(seen.Agents) != 1600 || len(seen.Claimed) != 3000 {
		t.Errorf("%d Nodes, %d Services of which %d hold a VIP, %d agents, %d claims", len(seen.Nodes), len(seen.Services), len(seen.Cluster.Services), len(seen.Agents), len(seen.Claimed))
	}
	s := diagnose.Of(seen)
	if len(s.Findings) != 2 || !strings.Contains(s.NotWell[0], "none leads") || !strings.Contains(s.NotWell[1], "newest edit") { // there is no lease, and no ConfigMap with its status
		t.Errorf("%.10q", s.NotWell)
	}
}

// BenchmarkSummary measures what `plinth status` takes for 1,600 machines, with an API server on the same
// processor that answers from memory.
func BenchmarkSummary(b *testing.B) {
	reader := large(b).serve(b)
	for b.Loop() {
		seen, err := reader.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if s := diagnose.Of(seen); len(s.Findings) != 2 {
			b.Fatalf("%.10q", s.NotWell)
		}
	}
}
