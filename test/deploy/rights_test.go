package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

// audit logs every request of the controller's, reads included.
const audit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + ownNamespace + `:` + apiserver.ControllerName + `"]
- level: None
`

// TestTheControllerIsRefusedNothing runs the controller with the rights that
// deploy/overlays/homelab gives it through a life of Nodes, Services and volumes.
func TestTheControllerIsRefusedNothing(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "all.log")
	if err := os.WriteFile(policy, []byte(audit), 0o600); err != nil {
		t.Fatal(err)
	}
	s := apiserver.Start(t, apiserver.Options{Flags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}})
	kubectl(t, s, render(t, "overlays/homelab"), "apply", "--server-side", "-f", "-")
	program := must(t)(components.Plinths(t.Context(), apiserver.ControllerName, dir)).(string)
	config := s.WriteKubeconfig("ccm", s.AccountTokenIn(ownNamespace, apiserver.ControllerName))
	s.Run(program, "--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--namespace="+ownNamespace, "--leader-elect-resource-namespace="+ownNamespace,
		"--bind-address=127.0.0.1", "--secure-port=0", "--node-monitor-period=1s", "--cluster-cidr=10.244.0.0/16")
	live(t, s)
	used := map[string]bool{}
	for _, r := range requests(t, log) {
		used[r.Verb+" "+r.what()] = true
		if r.ResponseStatus.Code == 403 {
			t.Errorf("%s %s of %q was refused: %s", r.Verb, r.what(), r.ObjectRef.Name, r.ResponseStatus.Message)
		}
	}
	for _, want := range []string{"patch nodes", "delete nodes", "create ipaddresses", "delete ipaddresses", "patch services/status", "update leases", "list leases", "create events"} {
		if !used[want] {
			t.Errorf("the controller never tried to %s, so this test says nothing about it", want)
		}
	}
	rights := rightsOf(t, s)
	for _, right := range rights {
		if !used[right] && seldomUsed[right] == "" {
			t.Errorf("the controller may %s, and had no use for it", right)
		}
	}
	for right := range seldomUsed {
		if !slices.Contains(rights, right) {
			t.Errorf("the controller may not %s, which is said to be seldom of use", right)
		}
	}
}

// seldomUsed are rights of the controller that the life of this story does not come to, and what they are for.
var seldomUsed = map[string]string{
	"list nodes":              "an API server that does not stream lists (KEP-3157)",
	"list namespaces":         "the same",
	"list servicecidrs":       "the same",
	"list endpointslices":     "the same",
	"list persistentvolumes":  "the same",
	"update nodes":            "the stock node controller, where a Node lacks something of its initialisation still",
	"get ipaddresses":         "a write that another one was before",
	"get namespaces":          "pools that select Namespaces by label",
	"patch ipaddresses":       "Services that share a VIP",
	"patch persistentvolumes": "volumes that lack their place",
	"patch events":            "what is said again",
	"delete configmaps":       "generations of the inventory that nobody reads any more",
}

// rightsOf lists what the roles of the controller allow, each verb with each resource.
func rightsOf(t *testing.T, s *apiserver.Server) (rights []string) {
	t.Helper()
	ofCluster := must(t)(s.Client.RbacV1().ClusterRoles().Get(t.Context(), apiserver.ControllerName, metav1.GetOptions{})).(*rbacv1.ClusterRole)
	ofNamespace := must(t)(s.Client.RbacV1().Roles(ownNamespace).Get(t.Context(), apiserver.ControllerName, metav1.GetOptions{})).(*rbacv1.Role)
	for _, rule := range slices.Concat(ofCluster.Rules, ofNamespace.Rules) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}

// live lets a Node be initialised and removed, a Service get its VIP and lose it.
func live(t *testing.T, s *apiserver.Server) {
	ctx := t.Context()
	for _, name := range []string{"nuc1", "nuc2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.Taints = []v1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse}}
		must(t)(s.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}))
	}
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	svc.Spec = v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}}}
	must(t)(s.Client.CoreV1().Services("default").Create(ctx, svc, metav1.CreateOptions{}))
	s.Eventually(time.Minute, "the Nodes are initialised", func(ctx context.Context) error {
		n, err := s.Client.CoreV1().Nodes().Get(ctx, "nuc2", metav1.GetOptions{})
		if err == nil && (n.Spec.ProviderID == "" || slices.ContainsFunc(n.Spec.Taints, func(x v1.Taint) bool { return strings.HasSuffix(x.Key, "/uninitialized") })) {
			err = fmt.Errorf("providerID %q, taints %v", n.Spec.ProviderID, n.Spec.Taints)
		}
		return err
	})
	s.Eventually(time.Minute, "the Service has a VIP", func(ctx context.Context) error {
		got, err := s.Client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && len(got.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("status %v", got.Status)
		}
		return err
	})
	if err := s.Client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	retire(t, s, "nuc2")
	s.Eventually(time.Minute, "the Service and the retired machine's Node are gone", func(ctx context.Context) error {
		nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		services, err := s.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err == nil && (len(nodes.Items) != 1 || len(services.Items) != 1) {
			err = fmt.Errorf("%d nodes, %d services", len(nodes.Items), len(services.Items))
		}
		return err
	})
	s.Eventually(time.Minute, "the VIP is free", func(ctx context.Context) error { // it rests after its Service has gone
		held, err := s.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
		if err == nil && len(held.Items) > 0 {
			err = fmt.Errorf("%s is held", held.Items[0].Name)
		}
		return err
	})
}

func retire(t *testing.T, s *apiserver.Server, machine string) {
	t.Helper()
	maps := s.Client.CoreV1().ConfigMaps(ownNamespace)
	cm := must(t)(maps.Get(t.Context(), "inventory", metav1.GetOptions{})).(*v1.ConfigMap)
	cm.Data["inventory.yaml"] = strings.Replace(cm.Data["inventory.yaml"], "{name: "+machine+",", "{name: "+machine+", state: retired,", 1)
	must(t)(maps.Update(t.Context(), cm, metav1.UpdateOptions{}))
}

// request is one as the audit log has it.
type request struct {
	Verb           string
	ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus struct {
		Code    int
		Message string
	}
}

func (r request) what() string {
	if r.ObjectRef.Subresource == "" {
		return r.ObjectRef.Resource
	}
	return r.ObjectRef.Resource + "/" + r.ObjectRef.Subresource
}

func requests(t *testing.T, log string) []request {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var out []request
	for line := range strings.Lines(string(text)) {
		var r request
		if json.Unmarshal([]byte(line), &r) == nil {
			out = append(out, r)
		}
	}
	return out
}

// must fails the test on an error.
func must(t *testing.T) func(any, error) any {
	return func(v any, err error) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
