package services

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/apiserver"
)

// watched is the inventory of a cluster in which nothing is wrong: w1 and w2 have Nodes, and the others are not there yet.
// w3 lacks an address for its pods' IPv6, and far is of another subnet, without a router.
const watched = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  safety: {maxUnreachable: 100%, maxDrained: 100%}
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks:
    - name: r1
      subnets: [10.1.0.0/24, "fd00:1::/64"]
      routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]
      machines:
        - {name: w1, addresses: [10.1.0.11, "fd00:1::11"], podCIDRs: [10.244.1.0/24, "fd00:244:0:1::/64"]}
        - {name: w2, addresses: [10.1.0.12, "fd00:1::12"], podCIDRs: [10.244.2.0/24, "fd00:244:0:2::/64"], match: {systemUUID: 00000000-0000-0000-0000-000000000002}}
        - {name: w3, addresses: [10.1.0.13], podCIDRs: [10.244.3.0/24, "fd00:244:0:3::/64"], state: planned}
    - name: r2
      subnets: [10.2.0.0/24, "fd00:2::/64"]
      routers: []
      machines:
        - {name: far, addresses: [10.2.0.11, "fd00:2::11"], podCIDRs: [10.244.4.0/24, "fd00:244:0:4::/64"], state: planned}
  pools: [{name: default, addresses: [192.0.2.1-192.0.2.10]}, {name: other, addresses: [198.51.100.0/28], autoAssign: false}]
`

// unwell is a state in which plinth status does not say that there are no problems.
type unwell struct {
	what    string
	harm    func(w *observer) (mend func())
	reasons []string // of all findings
}

// observer is the cluster of that inventory, and who asks for its status.
type observer struct {
	*cluster
	plinth string
	seen   []string // reasons
}

// TestStatusNamesWhateverIsBrokenUntilItIsMended provokes each reason that `plinth status` has for the parts of a cluster: those
// that it finds itself, those of Events on Nodes and on what carries the inventory, and those of agents. Services and VIPs
// have stories of their own.
func TestStatusNamesWhateverIsBrokenUntilItIsMended(t *testing.T) {
	w := &observer{cluster: newCluster(t)}
	w.plinth = w.cluster.plinth()
	w.says("nothing is there yet", "NoInventory", "NoLeader")
	stop := w.start(soonElected...)
	w.EditInventory(watched, nil)
	for _, name := range []string{"w1", "w2"} {
		w.join(name)
		w.pod("agent-"+name, "plinth-agent", name)
	}
	w.pod("controller-1", "plinth-cloud-controller-manager", "w1")
	w.well("at first")
	for _, state := range slices.Concat(ofNodes, ofAgents, ofPods, ofTheRest) {
		mend := state.harm(w)
		w.says(state.what, state.reasons...)
		mend()
		w.well(state.what + ", mended")
	}

	stop()
	w.says("the controller is dead", "NoLeader")
	w.leads("k3s", "nuc1_k3s")
	w.says("the controller of another program has the lease", "LeaseOfOther")
	w.leads("k3s", "")
	w.says("it has given it up", "NoLeader")
	w.service("unseen")
	w.says("nobody looks at a Service", "NoLeader", "ServiceUnanswered")
	w.EditInventory(watched+"# a remark\n", nil)
	w.says("nobody looks at an edit", "NoLeader", "ServiceUnanswered", "InventoryUnread")
	w.Kubectl("-n", "kube-system", "patch", "configmap", "plinth-accepted", "--type=merge", `-p={"data":{"inventory.yaml":"{"}}`)
	w.says("what was accepted is broken by hand", "NoLeader", "ServiceUnanswered", "InventoryUnread", "InventoryUnreadable")

	everyReason(t, "reasons.md", "What `plinth status` says besides", w.seen)
	everyReason(t, "reasons.md", "Why a pod CIDR is not routed", w.seen)
	everyReason(t, "cloud-provider.md", "Events on Nodes", append(w.seen, "MachineInMaintenance", "MachineOff", "MachineInService")) // on purpose
	everyReason(t, "agent.md", "The Node's condition", append(w.seen, "AsPlanned"))
	everyReason(t, "names.md", "Events on ConfigMaps", append(w.seen, "InventoryTakenUp", "InventoryWarning", // nothing is broken
		"InventoryNotStored", "InventoryNewerFormat")) // package nodes tells of these
}

// leads has a program write who holds the lease.
func (w *observer) leads(program, holder string) {
	w.t.Helper()
	lease := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":3600,"renewTime":%q}}`, holder, time.Now().UTC().Format(metav1.RFC3339Micro))
	w.Kubectl("-n", "kube-system", "patch", "lease", "cloud-controller-manager", "--field-manager="+program, "--type=merge", "-p="+lease)
}

// soonElected makes a lease that is soon over.
var soonElected = []string{"--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}

var ofNodes = []unwell{
	{"a machine's Node is not there", func(w *observer) func() { w.leave("w2"); return func() { w.join("w2") } }, []string{"MachineWithoutNode"}},
	{"a Node is not ready", patched("w1", kubeletSays("False"), kubeletSays("True")), []string{"NodeNotReady"}},
	{"a stranger", joined("stranger"), []string{"NoMachine"}},
	{"a Node of a planned machine", joined("w3"), []string{"Unexpected"}},
	{"two Nodes of one machine", joined("double", func(n *v1.Node) { n.Spec.ProviderID = "plinth://w1" }), []string{"Ambiguous"}},
	{"a Node of a machine that is gone", joined("former", func(n *v1.Node) { n.Spec.ProviderID = "plinth://former" }), []string{"MachineReplaced"}},
	{"another board", patched("w2", boardIs("9"), boardIs("2")), []string{"SystemUUIDDiffers"}},
	{"one systemUUID on two boards", patched("w1", boardIs("2"), boardIs("1")), []string{"SystemUUIDShared"}},
	{"an address of nobody", annotatedNode("w1", `"10.1.0.99"`), []string{"NodeIPUnknown"}},
	{"off, and ready", edited(`"fd00:244:0:1::/64"]`, `"fd00:244:0:1::/64"], state: "off"`), []string{"StillOff"}},
	{"out of service, and ready", tainted("w1"), []string{"StillOutOfService"}},
	{"out of service, and not off", both(tainted("w1"), patched("w1", kubeletSays("Unknown"), kubeletSays("True"))), []string{"NotKnownToBeOff", "NodeNotReady"}},
	{"off, with a volume", both(patched("w1", `{"status":{"volumesAttached":[{"name":"disk","devicePath":"/dev/sdx"}]}}`, `{"status":{"volumesAttached":null}}`),
		patched("w1", kubeletSays("Unknown"), kubeletSays("True")), edited(`"fd00:244:0:1::/64"]`, `"fd00:244:0:1::/64"], state: "off"`)), []string{"VolumesStayAttached"}},
	{"a pod CIDR of another Node", joined("stranger", podCIDRs("10.244.1.128/25")), []string{"PodCIDRInUse", "NoMachine"}},
	{"a pod CIDR outside of the pod network", both(edited(`"fd00:244:0:3::/64"], state: planned`, `"fd00:244:0:3::/64"]`), joined("w3", podCIDRs("10.99.0.0/24"))),
		[]string{"PodCIDRDiffer", "PodCIDROutsideNetwork", "AgentMissing"}},
	{"no address of the pods' family", both(edited(`"fd00:244:0:3::/64"], state: planned`, `"fd00:244:0:3::/64"]`), joined("w3")), []string{"NodeWithoutAddress", "NodeOfOtherSubnet", "AgentMissing"}},
	{"another subnet", both(edited(`"fd00:244:0:4::/64"], state: planned`, `"fd00:244:0:4::/64"]`), joined("far")), []string{"NodeOfOtherSubnet", "AgentMissing"}},
	{"no router", both(edited("mode: direct", "mode: fabric", "routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]", "routers: []", `"fd00:244:0:4::/64"], state: planned`, `"fd00:244:0:4::/64"]`), joined("far")), []string{"NoGateway", "AgentMissing"}},
}

var ofAgents = []unwell{
	{"a session is down", agentSays("False", lb.FabricDegraded, "routes 1/1, sessions 1/2: tor-r1 NoAnswer"), []string{"Degraded"}},
	{"all sessions are down", agentSays("False", lb.FabricSessionsDown, "routes 1/1, sessions 0/1: tor-r1 NoAnswer"), []string{"SessionsDown"}},
	{"it is cut off", agentSays("False", lb.FabricCutOff, "routes 1/1, sessions 0/0; link: 10.1.0.0/24 NoMajority"), []string{"CutOff"}},
	{"routes are missing", agentSays("False", "Incomplete", "routes 0/1, sessions 1/1"), []string{"Incomplete"}},
	{"it does not read what is stored", agentSays("True", lb.FabricOutdated, "routes 1/1, sessions 1/1; configmap plinth-accepted is of format 99"), []string{"Outdated"}},
	{"kube-proxy's rules are gone", agentSays("True", "AsPlanned", "routes 1/1, sessions 1/1; "+lb.RulesLost{Gone: 1, Of: 2}.String()), []string{"ProxyRulesLost"}},
	{"a setting of the kernel", agentSays("True", "AsPlanned", "routes 1/1, sessions 1/1; kernel settings: net.ipv4.ip_forward is 0 and should be 1"), []string{"KernelSettings"}},
	{"a router does not take a new password", agentSays("True", "AsPlanned", "routes 1/1, sessions 1/1; the new password did not bring up the session with tor-r1"), []string{"PasswordNotTaken"}},
	{"another host has a VIP", agentSays("True", "AsPlanned", "routes 1/1, sessions 1/1; on link 10.1.0.99 AddressConflict"), []string{"AddressConflict"}},
	{"an agent has never said anything", patched("w1", `{"status":{"conditions":[{"$patch":"delete","type":"plinth.dev/FabricReady"}]}}`, said("True", "AsPlanned", "routes 1/1, sessions 1/1")), []string{"AgentMissing"}},
	{"an agent is silent", func(w *observer) func() {
		now := time.Now().UTC()
		heard := func(at time.Time) {
			w.patchNode("w1", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q},{"type":"plinth.dev/FabricReady","lastHeartbeatTime":%q}]}}`,
				now.Format(time.RFC3339), at.Format(time.RFC3339)))
		}
		heard(now.Add(-13 * time.Minute))
		return func() { heard(now) }
	}, []string{"AgentSilent"}},
}

var ofPods = []unwell{
	{"an agent's pod does not run", func(w *observer) func() {
		w.waits("agent-w2", true)
		return func() { w.waits("agent-w2", false) }
	}, []string{"AgentNotRunning"}},
	{"the controller's pod does not run", func(w *observer) func() {
		w.waits("controller-1", true)
		return func() { w.waits("controller-1", false) }
	}, []string{"ControllerNotRunning"}},
	{"a Node has no pod of the agent", func(w *observer) func() {
		w.Kubectl("-n", "kube-system", "delete", "pod", "agent-w2", "--force")
		return func() { w.pod("agent-w2", "plinth-agent", "w2") }
	}, []string{"AgentMissing"}},
	{"another version", func(w *observer) func() {
		w.Kubectl("-n", "kube-system", "set", "image", "pod/agent-w2", "plinth-agent=plinth:v2")
		return func() { w.Kubectl("-n", "kube-system", "set", "image", "pod/agent-w2", "plinth-agent=plinth:v1") }
	}, []string{"VersionsDiffer"}},
}

var ofTheRest = []unwell{
	{"an edit with a mistake", edited("asn: 65010", "asn: x"), []string{"InventoryRefused"}},
	{"an edit on trial", edited("asn: 65101", "asn: 65102"), []string{"InventoryOnTrial"}},
	{"a machine that nobody mentions", func(w *observer) func() {
		i := strings.Index(watched, "        - {name: w2")
		w.EditInventory(watched[:i]+watched[i+strings.Index(watched[i:], "\n")+1:], nil)
		return func() { w.EditInventory(watched, nil) }
	}, []string{"MachineHeld"}},
	{"a Service of another proxy", func(w *observer) func() {
		w.service("elsewhere", func(s *v1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"} })
		return func() { w.remove("elsewhere") }
	}, []string{"ServedByOtherProxy", "NoEndpoint"}},
	{"a Service that is labelled headless", func(w *observer) func() {
		w.service("labelled", func(s *v1.Service) { s.Labels = map[string]string{"service.kubernetes.io/headless": ""} })
		return func() { w.remove("labelled") }
	}, []string{"LabelledHeadless", "NoEndpoint"}},
	{"a pool has the pods of a Node", joined("stranger", podCIDRs("198.51.100.8/29")), []string{"PoolTakesAddress", "NoMachine"}},
	{"a pool is nearly full", func(w *observer) func() {
		var names []string
		for i := range 9 {
			names = append(names, fmt.Sprint("many-", i))
			w.service(names[i])
		}
		return func() { w.remove(names...) }
	}, []string{"PoolNearlyFull", "NoEndpoint"}},
}

// join has a Node register, with a kubelet and an agent that say that all is well.
func (w *observer) join(name string, change ...func(*v1.Node)) {
	w.t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: []v1.Taint{apiserver.Uninitialized()}}}
	for _, f := range change {
		f(n)
	}
	n.Status.Conditions = []v1.NodeCondition{apiserver.Ready(true), fabric(v1.ConditionTrue, "AsPlanned", "routes 1/1, sessions 1/1")}
	_, err := w.Client.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{})
	must(w.t, err)
}

func (w *observer) leave(name string) {
	w.t.Helper()
	must(w.t, w.Client.CoreV1().Nodes().Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// patchNode merges JSON into a Node and its status.
func (w *observer) patchNode(name, patch string) {
	w.t.Helper()
	var status []string
	if strings.HasPrefix(patch, `{"status"`) {
		status = []string{"status"}
	}
	_, err := w.Client.CoreV1().Nodes().Patch(w.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, status...)
	must(w.t, err)
}

// pod creates a pod of Plinth's that runs.
func (w *observer) pod(name, program, node string) {
	w.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"app.kubernetes.io/name": program}}}
	pod.Spec = v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: program, Image: "plinth:v1"}}}
	_, err := w.Client.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	must(w.t, err)
	w.waits(name, false)
}

// waits says that a pod waits for something, or for nothing.
func (w *observer) waits(name string, on bool) {
	w.t.Helper()
	status := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "plinth", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	if on {
		status.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	must(w.t, err)
	_, err = w.Client.CoreV1().Pods("kube-system").Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(w.t, err)
}

// both does one harm after the other, and mends the last first.
func both(all ...func(*observer) func()) func(*observer) func() {
	return func(w *observer) func() {
		var mends []func()
		for _, harm := range all {
			mends = append(mends, harm(w))
		}
		return func() {
			for _, mend := range slices.Backward(mends) {
				mend()
			}
		}
	}
}

func joined(name string, change ...func(*v1.Node)) func(*observer) func() {
	return func(w *observer) func() {
		w.join(name, change...)
		return func() { w.leave(name) }
	}
}

func podCIDRs(all ...string) func(*v1.Node) {
	return func(n *v1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = all[0], all }
}

func patched(node, harm, mend string) func(*observer) func() {
	return func(w *observer) func() {
		w.patchNode(node, harm)
		return func() { w.patchNode(node, mend) }
	}
}

func annotatedNode(node, nodeIP string) func(*observer) func() {
	patch := func(value string) string {
		return `{"metadata":{"annotations":{"alpha.kubernetes.io/provided-node-ip":` + value + `}}}`
	}
	return patched(node, patch(nodeIP), patch("null"))
}

func tainted(node string) func(*observer) func() {
	return func(w *observer) func() {
		const taint = "node.kubernetes.io/out-of-service"
		w.Kubectl("taint", "node", node, taint+"=nodeshutdown:NoExecute")
		return func() { w.Kubectl("taint", "node", node, taint+"-") }
	}
}

// edited has the inventory say something else; pairs are what it says and what is to stand in its place.
func edited(pairs ...string) func(*observer) func() {
	return func(w *observer) func() {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(watched, pairs[i]) != 1 {
				w.t.Fatalf("%q is not once there to be edited", pairs[i])
			}
		}
		w.EditInventory(strings.NewReplacer(pairs...).Replace(watched), nil)
		return func() { w.EditInventory(watched, nil) }
	}
}

func kubeletSays(status string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
}

func boardIs(digit string) string {
	return `{"status":{"nodeInfo":{"systemUUID":"00000000-0000-0000-0000-00000000000` + digit + `"}}}`
}

func agentSays(status, reason, message string) func(*observer) func() {
	return patched("w1", said(status, reason, message), said("True", "AsPlanned", "routes 1/1, sessions 1/1"))
}

func said(status, reason, message string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":%q,"message":%q}]}}`, lb.FabricReady, status, reason, message)
}

// says waits until the status has findings of these reasons, and of no others.
func (w *observer) says(what string, reasons ...string) {
	w.t.Helper()
	w.seen = append(w.seen, reasons...)
	w.Eventually(30*time.Second, what+" is in the status", func(ctx context.Context) error {
		var status diagnose.Status
		if err := w.asks(ctx, &status, w.plinth, "status"); err != nil {
			return err
		}
		var found []string
		for _, f := range status.Findings {
			found = append(found, f.Reason)
		}
		slices.Sort(found)
		if found = slices.Compact(found); !slices.Equal(found, slices.Sorted(slices.Values(reasons))) {
			return fmt.Errorf("it has %q, by %v", status.NotWell, found)
		}
		return nil
	})
}

// well waits until the status says that there are no problems.
func (w *observer) well(when string) {
	w.t.Helper()
	w.Eventually(30*time.Second, "no problem "+when, func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, w.plinth, "status", "--kubeconfig", w.Kubeconfig).CombinedOutput()
		if err == nil && !strings.Contains(string(out), "No problems") {
			err = fmt.Errorf("it does not say so")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
