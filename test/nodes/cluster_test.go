package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }

// cluster is an API server with Plinth's controller manager beside it.
type cluster struct {
	*apiserver.Controller
	t testing.TB
}

func newCluster(t testing.TB, o apiserver.Options) *cluster {
	t.Helper()
	return &cluster{Controller: apiserver.NewController(t, o), t: t}
}

// start runs a controller manager and returns what kills it.
func (c *cluster) start(flags ...string) (stop func()) {
	c.t.Helper()
	return c.Start(append([]string{"--node-monitor-period=1s"}, flags...)...)
}

// edit puts an inventory, in one document, into a ConfigMap.
func (c *cluster) edit(text string) { c.t.Helper(); c.EditInventory(text, nil) }

// node is what a test says about a Node that a kubelet registers.
type node struct {
	name       string
	providerID string
	systemUUID string
	labels     map[string]string
	nodeIPs    string // of --node-ip
	adopted    bool   // it runs already: no uninitialized taint
	notReady   bool
	podCIDRs   []string
}

// register creates a Node as a kubelet with --cloud-provider=external does.
func (c *cluster) register(n node) *v1.Node {
	c.t.Helper()
	obj := &v1.Node{Spec: v1.NodeSpec{ProviderID: n.providerID, PodCIDRs: n.podCIDRs}}
	obj.Name = n.name
	obj.Status.NodeInfo.SystemUUID = n.systemUUID // told from the first
	obj.Labels = map[string]string{v1.LabelHostname: n.name, v1.LabelOSStable: "linux"}
	for k, v := range n.labels {
		obj.Labels[k] = v
	}
	if len(n.podCIDRs) > 0 {
		obj.Spec.PodCIDR = n.podCIDRs[0]
	}
	if !n.adopted {
		obj.Spec.Taints = []v1.Taint{apiserver.Uninitialized()}
	}
	if n.nodeIPs != "" {
		obj.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": n.nodeIPs}
	}
	created, err := c.Client.CoreV1().Nodes().Create(c.t.Context(), obj, metav1.CreateOptions{FieldManager: "kubelet"})
	if err != nil {
		c.t.Fatal(err)
	}
	status := v1.NodeStatus{
		NodeInfo:    v1.NodeSystemInfo{SystemUUID: n.systemUUID},
		Addresses:   []v1.NodeAddress{{Type: v1.NodeHostName, Address: n.name}},
		Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110"), v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi")},
		Conditions:  []v1.NodeCondition{apiserver.Ready(!n.notReady)},
		Images:      []v1.ContainerImage{{Names: []string{"registry.example.com/web:v1"}, SizeBytes: 1 << 20}},
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		c.t.Fatal(err)
	}
	updated, err := c.Client.CoreV1().Nodes().Patch(c.t.Context(), created.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	if err != nil {
		c.t.Fatal(err)
	}
	return updated
}

func (c *cluster) get(name string) *v1.Node {
	c.t.Helper()
	n, err := c.Client.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// until waits until a Node is as the check wants it.
func (c *cluster) until(name, what string, check func(*v1.Node) error) {
	c.t.Helper()
	c.Eventually(20*time.Second, "node "+name+" "+what, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(n)
	})
}

// labelled checks labels; an empty value means that there should be none.
func labelled(want map[string]string) func(*v1.Node) error {
	return func(n *v1.Node) error {
		var wrong []string
		for k, v := range want {
			if n.Labels[k] != v {
				wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", k, n.Labels[k], v))
			}
		}
		if len(wrong) > 0 {
			return errors.New(strings.Join(wrong, "; "))
		}
		return nil
	}
}

// tainted reports whether a Node has a taint, written as kubectl does.
func tainted(n *v1.Node, taint string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.ToString() == taint })
}

// patch merges JSON into a Node, or its status, as another program would.
func (c *cluster) patch(name, subresource, merge string) {
	c.t.Helper()
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	_, err := c.Client.CoreV1().Nodes().Patch(c.t.Context(), name, types.StrategicMergePatchType, []byte(merge), metav1.PatchOptions{FieldManager: "somebody"}, sub...)
	if err != nil {
		c.t.Fatal(err)
	}
}

// ready sets a Node's condition, as its kubelet would.
func (c *cluster) ready(name string, ok bool) {
	c.patch(name, "status", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Kubelet"}]}}`,
		map[bool]v1.ConditionStatus{true: v1.ConditionTrue, false: v1.ConditionFalse}[ok]))
}

// event waits for an Event with a reason on an object.
func (c *cluster) event(kind, name, reason, text string) {
	c.t.Helper()
	c.Eventually(20*time.Second, fmt.Sprintf("event %s on %s %s", reason, kind, name), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("seen are only:\n%s", strings.Join(seen, "\n"))
	})
}

// The lease is as short as a test can wait for.
var elected = []string{
	"--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms",
	"--node-monitor-period=500ms",
}

// logged returns the lines that the controller manager wrote since it had written the first
// so many bytes.
func (c *cluster) logged(since int) (lines []string) {
	for line := range strings.Lines(c.Log(apiserver.ControllerName)[since:]) {
		lines = append(lines, line)
	}
	return lines
}

// skewed is the inventory of the story of a newer version.
func skewed(zone, state string) string {
	return apiserver.Document(strings.NewReplacer("ZONE", zone, "STATE", state).Replace(withPool))
}

const withPool = `
  pools: [{name: public, addresses: [203.0.113.0/28]}]
  racks:
    - name: r01
      zone: ZONE
      machines:
        - {name: w1, addresses: [10.10.1.11]}
        - {name: old, addresses: [10.10.1.12], state: STATE}
`
