package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

// ccm is the cloud controller manager under test, built once.
var ccm string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "plinth-nodes-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		ccm = filepath.Join(dir, "plinth-cloud-controller-manager")
		build := exec.Command("go", "build", "-o", ccm, "./cmd/cloud-controller-manager")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the cloud controller manager: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// cluster is an API server with Plinth's controller manager beside it, which
// runs with the rights that deploy/ gives it and no more.
type cluster struct {
	*apiserver.Server
	t          testing.TB
	kubeconfig string // of the controller manager
}

func newCluster(t testing.TB, o apiserver.Options) *cluster {
	t.Helper()
	c := &cluster{Server: apiserver.Start(t, o), t: t}
	c.Eventually(20*time.Second, "namespace kube-system", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err
	})
	c.Kubectl("apply", "-f", filepath.Join("..", "..", "deploy", "base", "rbac-ccm.yaml"))
	hour := int64(3600)
	token, err := c.Client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "plinth-cloud-controller-manager",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig = c.WriteKubeconfig("ccm", token.Status.Token)
	t.Cleanup(func() {
		for line := range strings.Lines(c.Log(filepath.Base(ccm))) {
			starting := strings.Contains(line, "error from a previous attempt") // the server has yet to read its roles
			if strings.Contains(line, "forbidden") && !starting {
				t.Errorf("the shipped role does not allow all that the controller manager does: %s", line)
			}
		}
	})
	return c
}

// start runs a controller manager and returns what kills it.
func (c *cluster) start(flags ...string) (stop func()) {
	c.t.Helper()
	return c.Run(ccm, append([]string{"--kubeconfig=" + c.kubeconfig, "--secure-port=0", "--leader-elect=false",
		"--node-monitor-period=1s"}, flags...)...)
}

// inventoryName is the ConfigMap that tests edit.
const inventoryName = "inventory"

// edit puts an inventory, in one document, into a ConfigMap.
func (c *cluster) edit(spec string) { c.t.Helper(); c.editWith(spec, nil) }

func (c *cluster) editWith(spec string, annotations map[string]string) {
	c.t.Helper()
	ctx := c.t.Context()
	maps := c.Client.CoreV1().ConfigMaps("kube-system")
	cm := &v1.ConfigMap{Data: map[string]string{"dc1.yaml": spec}}
	cm.Name, cm.Annotations = inventoryName, annotations
	cm.Labels = map[string]string{"plinth.dev/inventory": "dc1"}
	_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// document wraps racks and other parts of a spec, indented by two, in a document.
func document(spec string) string {
	return "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n" + spec
}

// status waits until the status of the inventory is as wanted.
func (c *cluster) status(key, want string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "status "+key+" is "+want, func(ctx context.Context) error {
		cm, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err == nil && cm.Data[key] != want {
			return fmt.Errorf("it is %q; problems: %s", cm.Data[key], cm.Data["problems"])
		}
		return err
	})
}

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
	obj.Labels = map[string]string{v1.LabelHostname: n.name, v1.LabelOSStable: "linux"}
	for k, v := range n.labels {
		obj.Labels[k] = v
	}
	if len(n.podCIDRs) > 0 {
		obj.Spec.PodCIDR = n.podCIDRs[0]
	}
	if !n.adopted {
		obj.Spec.Taints = []v1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule}}
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
		Conditions:  []v1.NodeCondition{ready(!n.notReady)},
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

func ready(ok bool) v1.NodeCondition {
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
	if !ok {
		c.Status = v1.ConditionFalse
		c.Reason = "KubeletNotReady"
	}
	return c
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

// initialised says why a Node is not yet.
func initialised(n *v1.Node) error {
	for _, t := range n.Spec.Taints {
		if t.Key == "node.cloudprovider.kubernetes.io/uninitialized" {
			return errors.New("it still has the taint")
		}
	}
	if len(n.Status.Addresses) < 2 {
		return fmt.Errorf("its addresses are %v", n.Status.Addresses)
	}
	return nil
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

// writes returns what the controller manager wrote since the first n writes,
// but Events.
func (c *cluster) writes(since int) []apiserver.Write {
	var out []apiserver.Write
	for _, w := range c.Writes()[since:] {
		if w.Agent == filepath.Base(ccm) && w.Resource != "events" {
			out = append(out, w)
		}
	}
	return out
}
