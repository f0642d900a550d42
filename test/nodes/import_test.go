package nodes

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// TestAnImportOfTheNodesChangesNothingButOurLabels: a cluster runs without Plinth, its Nodes are imported, and what comes out is taken up.
// A Node that has no provider ID gets Plinth's.
func TestAnImportOfTheNodesChangesNothingButOurLabels(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.register(node{name: "w1", adopted: true, providerID: "k3s://w1", systemUUID: "4c4c4544-0032-3010-8053-b7c04f585931", podCIDRs: []string{"10.244.1.0/24"},
		labels: map[string]string{v1.LabelTopologyZone: "a", v1.LabelTopologyRegion: "home", v1.LabelInstanceTypeStable: "k3s", "example.com/disk": "ssd"}})
	c.register(node{name: "w2.example.com", adopted: true, systemUUID: "03000200-0400-0500-0006-000700080009", labels: map[string]string{v1.LabelTopologyZone: "b", v1.LabelTopologyRegion: "home"}})
	c.register(node{name: "w3", adopted: true, providerID: "plinth://SN-3", systemUUID: "03000200-0400-0500-0006-000700080009", labels: map[string]string{v1.LabelTopologyRegion: "home"}})
	for name, addresses := range map[string][]v1.NodeAddress{
		"w1":             {{Type: v1.NodeInternalIP, Address: "10.10.1.11"}, {Type: v1.NodeInternalIP, Address: "fd00:10::b"}, {Type: v1.NodeExternalIP, Address: "203.0.113.11"}, {Type: v1.NodeHostName, Address: "w1"}},
		"w2.example.com": {{Type: v1.NodeInternalIP, Address: "10.10.2.12"}, {Type: v1.NodeHostName, Address: "w2"}},
		"w3":             {{Type: v1.NodeInternalIP, Address: "10.10.3.13"}, {Type: v1.NodeHostName, Address: "w3"}},
	} {
		c.setAddresses(name, addresses...)
	}
	c.patch("w2.example.com", "", `{"spec":{"taints":[{"key":"dedicated","value":"search","effect":"NoSchedule"},{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]}}`)
	before := c.allNodes()

	var text, notes bytes.Buffer
	cmd := exec.Command(program, "import", "--name=dc1", "--kubeconfig", c.Kubeconfig, "nodes", "cluster")
	cmd.Stdout, cmd.Stderr = &text, &notes
	if err := cmd.Run(); err != nil || notes.Len() > 0 {
		t.Fatalf("%v\n%s\n%s", err, &notes, &text)
	}
	c.edit(text.String())
	c.start("--node-status-update-frequency=1s")
	c.AwaitStatus("generation", "1")
	for name, want := range map[string]map[string]string{
		"w1":             {"plinth.dev/rack": "a", v1.LabelTopologyZone: "a", v1.LabelTopologyRegion: "home", v1.LabelInstanceTypeStable: "k3s"},
		"w2.example.com": {"plinth.dev/rack": "b", v1.LabelTopologyZone: "b", v1.LabelTopologyRegion: "home"},
		"w3":             {"plinth.dev/rack": "default", v1.LabelTopologyZone: "default"},
	} {
		c.until(name, "has its place", labelled(want))
	}
	// Plinth keeps addresses, too: once one that somebody adds goes again, it has looked at all of them.
	for name := range before {
		c.setAddresses(name, append(slices.Clone(before[name].Status.Addresses), v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.10.9.9"})...)
		c.until(name, "has its own addresses again", func(n *v1.Node) error {
			if diff := cmp.Diff(before[name].Status.Addresses, n.Status.Addresses); diff != "" {
				return fmt.Errorf("(-before +after) %s", diff)
			}
			return nil
		})
	}
	for name, after := range c.allNodes() {
		was := before[name]
		if was.Spec.ProviderID == "" {
			was.Spec.ProviderID = "plinth://" + name
		}
		maps.DeleteFunc(after.Labels, func(key, _ string) bool { return was.Labels[key] == "" && ofPlinth(key) })
		if diff := cmp.Diff(stripped(was), stripped(after)); diff != "" {
			t.Errorf("%s (-before +after): %s", name, diff)
		}
	}
	if t.Failed() {
		t.Logf("what was imported:\n%s", &text)
	}
}

// ofPlinth reports whether Plinth keeps a label on every Node.
func ofPlinth(key string) bool {
	return strings.HasPrefix(key, "plinth.dev/") || strings.HasPrefix(key, "plinth.node-restriction.kubernetes.io/") || slices.Contains([]string{
		v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelInstanceTypeStable, v1.LabelInstanceType,
	}, key)
}

// stripped is a Node without what every write of anybody changes.
func stripped(n *v1.Node) *v1.Node {
	n = n.DeepCopy()
	n.ResourceVersion, n.ManagedFields = "", nil
	return n
}

func (c *cluster) allNodes() map[string]*v1.Node {
	c.t.Helper()
	list, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]*v1.Node{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// setAddresses writes addresses as a kubelet without a cloud does.
func (c *cluster) setAddresses(name string, addresses ...v1.NodeAddress) {
	c.t.Helper()
	c.Eventually(10*time.Second, "addresses of "+name, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Addresses = addresses
		_, err = c.Client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{FieldManager: "kubelet"})
		return err
	})
}

// TestTheFirstInventoryIsWrittenFromTheCluster: init asks what the cluster does not tell, and what it writes serves the first Service.
func TestTheFirstInventoryIsWrittenFromTheCluster(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	for _, name := range []string{"nuc1", "nuc2"} { // that wait for a cloud provider
		c.register(node{name: name, nodeIPs: map[string]string{"nuc1": "192.168.1.11", "nuc2": "192.168.1.12"}[name]})
	}
	used := &v1.Service{Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.168.1.230"}}}
	used.Name = "used"
	if _, err := c.Client.CoreV1().Services("default").Create(t.Context(), used, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	cmd := exec.Command(program, "init", "--kubeconfig", c.Kubeconfig, "--name=dc1", "--output", file)
	cmd.Stdin = strings.NewReader("perhaps\n\n192.168.1.0/24\n\n") // no router, the network, and the addresses that are proposed
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "note[") {
		t.Errorf("it notes what was said:\n%s", out)
	}
	for _, part := range []string{
		"Address of a router that speaks BGP with the machines [none]: ", "unable to parse", "Network of the machines [192.168.1.0/24]: ", "[192.168.1.208-192.168.1.223]: ",
		"is written", "plinth validate", "helm install", "agent.onLink=true", "plinth status",
	} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it does not say %q:\n%s", part, out)
		}
	}
	if again, err := exec.Command(program, "init", "--kubeconfig", c.Kubeconfig, "--output", file, "--yes").CombinedOutput(); err == nil || !strings.Contains(string(again), "is there already") {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c.start()
	c.edit(string(text))
	c.AwaitStatus("generation", "1")
	web := &v1.Service{Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}}}}
	web.Name = "web"
	if _, err := c.Client.CoreV1().Services("default").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(20*time.Second, "web has the first address", func(ctx context.Context) error {
		s, err := c.Client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != "192.168.1.208" {
			return fmt.Errorf("it has %v", in)
		}
		return nil
	})
}
