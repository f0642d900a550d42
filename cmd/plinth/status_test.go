package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
)

const statusInventory = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks:
    - name: shelf
      machines:
        - {name: nuc1, addresses: [192.168.1.11]}
        - {name: nuc2, addresses: [192.168.1.12], state: maintenance}
        - {name: nuc3, addresses: [192.168.1.13], state: planned}
        - {name: nuc4, addresses: [192.168.1.14], state: "off"}
  pools: [{name: default, addresses: [192.168.50.0/26]}]
`

// well is a cluster in which there is nothing to be seen.
func well(t *testing.T) observed {
	t.Helper()
	inv, problems := inventory.Load(inventory.Document{Source: "home.yaml", Data: []byte(statusInventory)})
	if inv == nil {
		t.Fatal(problems)
	}
	return observed{
		inventory: inv,
		taken:     map[string]string{"ready": "true", "generation": "7"},
		nodes:     []v1.Node{nodeThatIs("nuc1", v1.ConditionTrue, v1.ConditionTrue), nodeThatIs("nuc2", v1.ConditionTrue, v1.ConditionTrue)},
		services:  []v1.Service{serviceThatIs(metav1.ConditionTrue, "Allocated", "")},
		claims:    []networkingv1.IPAddress{{ObjectMeta: metav1.ObjectMeta{Name: "192.168.50.1"}}},
	}
}

func nodeThatIs(name string, ready, fabric v1.ConditionStatus) v1.Node {
	n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: ready, Message: "kubelet says so"},
		{Type: "plinth.dev/FabricReady", Status: fabric, Message: "routes 1/1, sessions 0/1"},
	}
	return n
}

func podThatIs(name string, phase v1.PodPhase, unschedulable string) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.PodStatus{Phase: phase}}
	if unschedulable != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: unschedulable}}
	}
	return p
}

// What is out of service on purpose is told, with the reason, and is no problem.
func TestStatusTellsWhatIsOutOfServiceAndWhy(t *testing.T) {
	seen := well(t)
	shelf := &seen.inventory.Racks[0]
	shelf.Machines[1].Reason = "PSU swap"
	seen.inventory.Racks = append(seen.inventory.Racks, inventory.Rack{Name: "r2", State: inventory.StateMaintenance, Machines: []inventory.Machine{
		{Name: "w1", Rack: "r2", State: inventory.StateMaintenance},
		{Name: "w2", Rack: "r2", State: inventory.StateOff, Reason: "no fans"},
		{Name: "w3", Rack: "r2", State: inventory.StateRetired},
	}})
	seen.nodes = append(seen.nodes, nodeThatIs("w1", v1.ConditionTrue, v1.ConditionTrue))
	seen.nodes[0].Labels = map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}
	seen.inventory.Pools[0].State = inventory.PoolDraining
	got := statusOf(seen)
	if len(got.NotWell) > 0 {
		t.Errorf("these are no problems: %q", got.NotWell)
	}
	want := []string{
		"machine nuc2 (shelf): maintenance: PSU swap",
		"machine nuc4 (shelf): off",
		"rack r2: maintenance: with 3 machines",
		"machine w2 (r2): off: no fans",
		"node nuc1: announces no VIP: it bears the label node.kubernetes.io/exclude-from-external-load-balancers",
		"pool default: draining",
	}
	var text strings.Builder
	if err := writeStatusText(&text, got); err != nil {
		t.Fatal(err)
	}
	if lines := "Out of service:\n  " + strings.Join(want, "\n  ") + "\n"; !strings.Contains(text.String(), lines) || !strings.HasSuffix(text.String(), "\nNo problems.\n") {
		t.Errorf("it prints\n%s\nwithout\n%s", &text, lines)
	}
}

func serviceThatIs(allocated metav1.ConditionStatus, reason, message string) v1.Service {
	s := v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}}
	s.Status.Conditions = []metav1.Condition{{Type: "plinth.dev/VIPAllocated", Status: allocated, Reason: reason, Message: message}}
	return s
}

func TestStatusNamesAllThatIsNotWellAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*observed)
		want   []string
	}{
		{"all is well", func(*observed) {}, nil},
		{"an edit was refused", func(s *observed) {
			s.taken["ready"], s.taken["problems"] = "false", "home.yaml:1:1: error[P0001]: one\nhome.yaml:2:1: error[P0002]: two\n"
		}, []string{"newest edit", "P0001", "P0002"}},
		{"nobody took anything up yet", func(s *observed) { s.taken = nil }, []string{"newest edit"}},
		{"a Node is not there", func(s *observed) { s.nodes = s.nodes[1:] }, []string{"nuc1 (shelf) has no Node"}},
		{"a Node is not ready", func(s *observed) { s.nodes[0] = nodeThatIs("nuc1", v1.ConditionFalse, v1.ConditionTrue) }, []string{"nuc1 is not ready: kubelet says so"}},
		{"an agent says that a session is down", func(s *observed) { s.nodes[1] = nodeThatIs("nuc2", v1.ConditionTrue, v1.ConditionFalse) }, []string{"sessions 0/1"}},
		{"there is no agent", func(s *observed) { s.nodes[0].Status.Conditions = s.nodes[0].Status.Conditions[:1] }, []string{"no agent has said so"}},
		{"a stranger", func(s *observed) { s.nodes = append(s.nodes, nodeThatIs("nuc9", v1.ConditionTrue, v1.ConditionTrue)) }, []string{"node nuc9"}},
		{"a Service waits", func(s *observed) {
			s.services[0] = serviceThatIs(metav1.ConditionFalse, "PoolExhausted", "default: all 64 addresses are in use")
		}, []string{"service prod/web: PoolExhausted: default: all 64"}},
		{"nobody has looked at a Service", func(s *observed) { s.services[0].Status.Conditions = nil }, []string{"service prod/web: nobody has answered it"}},
		{"another balancer's Service", func(s *observed) {
			s.services[0].Status.Conditions = nil
			s.services[0].Spec.LoadBalancerClass = new("example.com/other")
		}, nil},
		{"two Nodes of one machine", func(s *observed) {
			s.nodes[1] = nodeThatIs("other", v1.ConditionTrue, v1.ConditionTrue)
			s.nodes[1].Spec.ProviderID = "plinth://nuc1"
		}, []string{"nuc2 (shelf) has no Node", "node other: machine nuc1 is node nuc1 already"}},
		{"the controller knows a Node of which it cannot be told which machine it is", func(s *observed) {
			s.nodes[0].Spec.ProviderID = "plinth://nuc1"
			s.inventory.Racks[0].Machines[0].ID = "NEWSERIAL"
			s.taken["nodesWithoutMachine"], s.taken["machinesWithoutNode"] = "nuc1", "nuc1"
		}, []string{"node nuc1: it has the provider ID plinth://nuc1, and machine nuc1 is plinth://NEWSERIAL now; a provider ID never changes: if another machine is in its place, drain the Node if pods run there, run: kubectl delete node nuc1, and restart the kubelet there"}},
		{"a Node of a machine that the inventory has another in the place of, before the controller has said so", func(s *observed) {
			s.nodes[0].Spec.ProviderID = "plinth://nuc1"
			s.inventory.Racks[0].Machines[0].ID = "NEWSERIAL"
		}, []string{"run: kubectl delete node nuc1"}},
		{"a board that the inventory does not know", func(s *observed) {
			s.nodes[0].Status.NodeInfo.SystemUUID = "4C4C4544-0032-3010-8053-B7C04F585932"
			s.nodes[0].Spec.ProviderID = "plinth://nuc1"
			s.inventory.Racks[0].Machines[0].SystemUUID = "4c4c4544-0032-3010-8053-b7c04f585931"
		}, []string{"node nuc1: it reports systemUUID 4c4c4544-0032-3010-8053-b7c04f585932, and the inventory has 4c4c4544-0032-3010-8053-b7c04f585931 for machine nuc1"}},
		{"a machine that is off with a volume", func(s *observed) {
			s.nodes = append(s.nodes, nodeThatIs("nuc4", v1.ConditionUnknown, v1.ConditionUnknown))
			s.nodes[2].Status.VolumesAttached = []v1.AttachedVolume{{Name: "disk"}}
		}, []string{"node nuc4: machine nuc4 is off, and what is attached to it can be used nowhere else (volumes: 1)"}},
		{"the controller has not seen a Node", func(s *observed) { s.taken["machinesWithoutNode"] = "nuc1\n" }, []string{"machine nuc1 (shelf): the controller knows no Node of it"}},
		{"the controller has initialised a Node, and has not said so yet", func(s *observed) {
			s.nodes[0].Spec.ProviderID = "plinth://nuc1"
			s.taken["machinesWithoutNode"], s.taken["nodesWithoutMachine"] = "nuc1\n", "nuc1\n"
		}, nil},
		{"a stranger that the controller tells of, too", func(s *observed) {
			s.nodes = append(s.nodes, nodeThatIs("nuc9", v1.ConditionTrue, v1.ConditionTrue))
			s.taken["nodesWithoutMachine"] = "nuc9"
		}, []string{"node nuc9"}},
		{"a machine without a Node that the controller tells of, too", func(s *observed) {
			s.nodes = s.nodes[1:]
			s.taken["machinesWithoutNode"] = "nuc1"
		}, []string{"nuc1 (shelf) has no Node"}},
		{"the controller tells of a Node that is gone by now", func(s *observed) { s.taken["nodesWithoutMachine"] = "nuc9\n" }, nil},
		{"the controller cannot be scheduled", func(s *observed) {
			s.controllers = []v1.Pod{podThatIs("plinth-cloud-controller-manager-x", v1.PodPending, "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.")}
		}, []string{"controller: pod plinth-cloud-controller-manager-x does not run: it cannot be scheduled: 0/4 nodes are available: 4 node(s) didn't match"}},
		{"the controller's image is not to be had", func(s *observed) {
			pod := podThatIs("p", v1.PodPending, "")
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
			s.controllers = []v1.Pod{pod}
		}, []string{"pod p does not run: ImagePullBackOff: no such image"}},
		{"the controller runs", func(s *observed) { s.controllers = []v1.Pod{podThatIs("p", v1.PodRunning, "")} }, nil},
		{"nothing is in force, for the controller never ran", func(s *observed) {
			*s = observed{controllers: []v1.Pod{podThatIs("p", v1.PodPending, "no node")}}
		}, []string{"pod p does not run", "no inventory is in force"}},
		{"a rack in maintenance", func(s *observed) { s.inventory.Racks[0].State = inventory.StateMaintenance }, nil},
		{"a machine is held", func(s *observed) { s.inventory.Racks[0].Machines[0].Held = true }, []string{"nuc1 (shelf) is not in the inventory any more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := well(t)
			c.change(&seen)
			got := statusOf(seen).NotWell
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %d", got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q does not say %q", got[i], want)
				}
			}
		})
	}
}

// Of two controllers on one control-plane node one waits for ever.
func TestStatusSaysThatOneControlPlaneNodeHasRoomForOneController(t *testing.T) {
	for places, hint := range map[int]bool{0: false, 1: true, 2: false} {
		seen := well(t)
		for i := range places {
			seen.nodes[i].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}
		seen.controllers = []v1.Pod{podThatIs("ccm-1", v1.PodRunning, ""), podThatIs("ccm-2", v1.PodPending, "0/2 nodes are available")}
		got := statusOf(seen)
		if len(got.NotWell) != 1 || strings.Contains(got.NotWell[0], "set the replicas of the controller to 1") != hint {
			t.Errorf("%d control-plane nodes: it says %q", places, got.NotWell)
		}
	}
}

func TestStatusTellsOfAnAgentThatANewerVersionHasLeftBehind(t *testing.T) {
	seen := well(t)
	c := &seen.nodes[0].Status.Conditions[1]
	c.Reason, c.Message = "Outdated", "routes 1/1, sessions 1/1; configmap plinth-accepted is of format 2"
	got := statusOf(seen)
	if len(got.NotWell) != 1 || !strings.Contains(got.NotWell[0], "nuc1 (shelf): its agent is of an older version") || !strings.Contains(got.NotWell[0], "of format 2") {
		t.Errorf("it says %q", got.NotWell)
	}
	if got.Racks[0].FabricReady != 2 {
		t.Errorf("%d fabrics are ready: it announces and routes as before", got.Racks[0].FabricReady)
	}
}

func TestStatusCountsWhatIsToBeThere(t *testing.T) {
	seen := well(t)
	seen.claims = append(seen.claims, networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.1"}})
	got := statusOf(seen)
	if want := []rackStatus{{"shelf", 2, 2, 2, 2}}; !slices.Equal(got.Racks, want) {
		t.Errorf("racks %v, want %v: machines that are planned or off need no Node", got.Racks, want)
	}
	if want := []poolStatus{{"default", "active", 1}, {"", "no pool", 1}}; !slices.Equal(got.Pools, want) {
		t.Errorf("pools %v, want %v", got.Pools, want)
	}
	var text strings.Builder
	if err := writeStatusText(&text, got); err != nil {
		t.Fatal(err)
	}
	const want = `inventory home, generation 7

RACK    MACHINES   NODES READY   FABRIC READY   OUT OF SERVICE
shelf   2          2             2              2

POOL      STATE     VIPS HELD
default   active    1
-         no pool   1

Services of type LoadBalancer: 1

Out of service:
  machine nuc2 (shelf): maintenance
  machine nuc4 (shelf): off

No problems.
`
	if text.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", &text, want)
	}
}

// TestStatusIsPrintedWithoutTheRightToListPods has a reader who may read all but the pods of
// the controller's namespace.
func TestStatusIsPrintedWithoutTheRightToListPods(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(v1.Resource("pods"), "", errors.New("jane may not list them"))
	})
	seen, err := look(t.Context(), client, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	all := well(t)
	all.forbidden = seen.forbidden
	got := statusOf(all)
	var text strings.Builder
	if err := writeStatusText(&text, got); err != nil {
		t.Fatal(err)
	}
	const want = "\nServices of type LoadBalancer: 1\nNot known: whether the controller's pods run: pods is forbidden: jane may not list them\n\nOut of service:\n"
	if !strings.Contains(text.String(), want) || len(got.NotWell) > 0 {
		t.Errorf("%q, and it prints\n%s\nwithout\n%s", got.NotWell, &text, want)
	}
}

// A program reads the same of both.
func TestStatusInYAMLSaysWhatItSaysInJSON(t *testing.T) {
	seen := well(t)
	seen.taken["generation"] = "1e3" // which is text
	seen.nodes[0].Status.Conditions[0].Status = v1.ConditionFalse
	seen.nodes[0].Status.Conditions[0].Message = "off: yes\n- no # <&>"
	var asJSON, asYAML bytes.Buffer
	if err := errors.Join(statusWriters["json"](&asJSON, statusOf(seen)), statusWriters["yaml"](&asYAML, statusOf(seen))); err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(yaml.Unmarshal(asJSON.Bytes(), &a), yaml.Unmarshal(asYAML.Bytes(), &b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" || !strings.HasPrefix(asYAML.String(), "inventory: home\ngeneration: \"1e3\"\nracks:\n") {
		t.Errorf("%s\n%s", diff, &asYAML)
	}
}
