// Package deploy checks the manifests of deploy/ against a real API server.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

const namespace = "kube-system"

func TestManifestsFitTheirSchemas(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, "", "create", "namespace", ownNamespace) // a dry run makes none
	for _, folder := range []string{"base", "overlays/homelab"} {
		t.Run(folder, func(t *testing.T) {
			manifest := render(t, folder)
			if !strings.Contains(manifest, "kind: DaemonSet") {
				t.Fatalf("there is no agent in\n%s", manifest)
			}
			// Strict: a misspelt field is an error, not a warning.
			kubectl(t, s, manifest, "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")
		})
	}
}

func TestTheOverlaysInventoryIsTheExample(t *testing.T) {
	same := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if same("../../deploy/overlays/homelab/inventory.yaml") != same("../../examples/homelab/inventory.yaml") {
		t.Error("deploy/overlays/homelab/inventory.yaml is not examples/homelab/inventory.yaml any more")
	}
}

// TestAStolenTokenOfAnAgent does what somebody would do who took over a machine,
// and with it the token of the agent there.
func TestAStolenTokenOfAnAgent(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, render(t, "base"), "apply", "--server-side", "-f", "-")
	node(t, s, "w1")
	node(t, s, "w2")
	thief := as(t, s, boundToken(t, s, "w1"))
	unbound := as(t, s, token(t, s, nil))
	// A policy takes a moment until it is in force.
	s.Eventually(30*time.Second, "the policy is in force", func(ctx context.Context) error {
		if err := patch(ctx, unbound, "w1", "status", fabricReady); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a token of no Node is let through"), err)
		}
		return nil
	})
	for _, c := range []struct {
		name, node, subresource, patch string
		allowed                        bool
	}{
		{"its own condition", "w1", "status", fabricReady, true},
		{"its own condition once more", "w1", "status", strings.ReplaceAll(fabricReady, "True", "False"), true},
		{"the condition of another Node", "w2", "status", fabricReady, false},
		{"another condition", "w1", "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, false},
		{"its addresses", "w1", "status", `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.99"}]}}`, false},
		{"its capacity", "w1", "status", `{"status":{"capacity":{"cpu":"999"}}}`, false},
		{"a label, by way of the status", "w1", "status", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, false},
		{"an annotation, by way of the status", "w1", "status", `{"metadata":{"annotations":{"a":"b"}}}`, false},
		{"a label", "w1", "", `{"metadata":{"labels":{"a":"b"}}}`, false},
		{"a taint", "w1", "", `{"spec":{"taints":null}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := patch(t.Context(), thief, c.node, c.subresource, c.patch)
			switch {
			case c.allowed && err != nil:
				t.Error(err)
			case !c.allowed && !apierrors.IsForbidden(err):
				t.Errorf("was let through, or failed for another reason: %v", err)
			}
		})
	}
	t.Run("by other kinds of patch", func(t *testing.T) { otherPatches(t, s, thief) })
	t.Run("every field of the status", func(t *testing.T) { everyField(t, s, thief) })
	t.Run("what else it may do", func(t *testing.T) { refusals(t, thief) })
	t.Run("the kubelet is left alone", func(t *testing.T) {
		if err := patch(t.Context(), s.Client, "w2", "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`); err != nil {
			t.Error(err)
		}
	})
}

const fabricReady = `{"status":{"conditions":[{"type":"plinth.dev/FabricReady","status":"True","reason":"Ready","message":"routes 1/1, sessions 1/1"}]}}`

// otherPatches changes the status of the thief's own Node by every kind of patch that there
// is. None may touch anything but the agent's condition.
func otherPatches(t *testing.T, s *apiserver.Server, thief kubernetes.Interface) {
	strategic, merge, jsons, apply := types.StrategicMergePatchType, types.MergePatchType, types.JSONPatchType, types.ApplyPatchType
	const applied = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1"%s},"status":{"conditions":[{"type":%q,"status":"True"}]}}`
	n := must(t)(s.Client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})).(*v1.Node)
	ready := slices.IndexFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
	for _, c := range []struct {
		name    string
		kind    types.PatchType
		patch   string
		allowed bool
	}{
		{"another condition", jsons, fmt.Sprintf(`[{"op":"replace","path":"/status/conditions/%d/status","value":"True"}]`, ready), false},
		{"another condition", apply, fmt.Sprintf(applied, "", "Ready"), false},
		{"a condition more", jsons, `[{"op":"add","path":"/status/conditions/-","value":{"type":"DiskPressure","status":"True"}}]`, false},
		{"another condition away", jsons, fmt.Sprintf(`[{"op":"remove","path":"/status/conditions/%d"}]`, ready), false},
		{"another condition away", strategic, `{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`, false},
		{"all conditions but its own away", merge, fabricReady, false},
		{"all conditions away", merge, `{"status":{"conditions":null}}`, false},
		{"the status away", jsons, `[{"op":"remove","path":"/status"}]`, false},
		{"addresses", jsons, `[{"op":"replace","path":"/status/addresses/0/address","value":"10.0.0.99"}]`, false},
		{"a finalizer", merge, `{"metadata":{"finalizers":["example.com/stay"]}}`, false},
		{"an owner", merge, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"w2","uid":"1"}]}}`, false},
		{"a label", apply, fmt.Sprintf(applied, `,"labels":{"a":"b"}`, "plinth.dev/FabricReady"), false},
		{"a taint", jsons, `[{"op":"add","path":"/spec/taints","value":[{"key":"a","effect":"NoExecute"}]}]`, true}, // without effect
		{"its own condition", apply, fmt.Sprintf(applied, "", "plinth.dev/FabricReady"), true},
		{"its own condition away", strategic, `{"status":{"conditions":[{"$patch":"delete","type":"plinth.dev/FabricReady"}]}}`, true},
	} {
		options := metav1.PatchOptions{}
		if c.kind == apply {
			options = metav1.PatchOptions{FieldManager: "thief", Force: new(true)}
		}
		before := nodeNow(t, s, "w1")
		_, err := thief.CoreV1().Nodes().Patch(t.Context(), "w1", c.kind, []byte(c.patch), options, "status")
		switch {
		case c.allowed && err != nil:
			t.Errorf("%s by %s: %v", c.name, c.kind, err)
		case !c.allowed && !apierrors.IsForbidden(err):
			t.Errorf("%s by %s was let through, or failed for another reason: %v", c.name, c.kind, err)
		}
		if after := nodeNow(t, s, "w1"); !equality.Semantic.DeepEqual(before, after) {
			t.Errorf("%s by %s: the Node was %+v and is %+v", c.name, c.kind, before, after)
		}
	}
}

// everyField changes all that a status of the newest Kubernetes has. What an older API
// server does not know has no effect there, and is no reason to refuse anything.
func everyField(t *testing.T, s *apiserver.Server, thief kubernetes.Interface) {
	patches := map[string]string{
		"capacity": `{"cpu":"999"}`, "allocatable": `{"cpu":"999"}`, "phase": `"Running"`,
		"addresses":       `[{"type":"InternalIP","address":"10.0.0.99"}]`,
		"daemonEndpoints": `{"kubeletEndpoint":{"Port":10250}}`, "nodeInfo": `{"kernelVersion":"6.2"}`,
		"images": `[{"names":["a"],"sizeBytes":1}]`, "volumesInUse": `["a"]`, "volumesAttached": `[{"name":"a","devicePath":"b"}]`,
		"config": `{"error":"a"}`, "runtimeHandlers": `[{"name":"a"}]`, "features": `{"supplementalGroupsPolicy":true}`,
		"declaredFeatures": `["Some"]`,
	}
	status := reflect.TypeFor[v1.NodeStatus]()
	for i := range status.NumField() {
		field, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
		if field == "conditions" {
			continue
		}
		value, ok := patches[field]
		if !ok {
			t.Errorf("no patch changes field %s of a Node's status", field)
			continue
		}
		before := nodeNow(t, s, "w1")
		body := fmt.Sprintf(`{"status":{%q:%s}}`, field, value)
		_, err := thief.CoreV1().Nodes().Patch(t.Context(), "w1", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", body, err)
		}
		if after := nodeNow(t, s, "w1"); !equality.Semantic.DeepEqual(before, after) {
			t.Errorf("%s: the Node was %+v and is %+v", body, before, after)
		}
	}
}

// nodeNow is a Node as it is, without what an agent may change.
func nodeNow(t *testing.T, s *apiserver.Server, name string) *v1.Node {
	t.Helper()
	n := must(t)(s.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})).(*v1.Node)
	n.ResourceVersion, n.ManagedFields = "", nil
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == "plinth.dev/FabricReady" })
	return n
}

// refusals tries what no agent has to do.
func refusals(t *testing.T, c kubernetes.Interface) {
	ctx := t.Context()
	core, claims, none := c.CoreV1(), c.NetworkingV1().IPAddresses(), metav1.PatchOptions{}
	named := metav1.ObjectMeta{Name: "x"}
	w1 := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"list Secrets":                       second(core.Secrets(namespace).List(ctx, metav1.ListOptions{})),
		"read a Secret of another namespace": second(core.Secrets("default").Get(ctx, "bgp", metav1.GetOptions{})),
		"write a Secret that it may read":    second(core.Secrets(namespace).Patch(ctx, "bgp", types.MergePatchType, []byte(`{}`), none)),
		"list other ConfigMaps":              second(core.ConfigMaps("default").List(ctx, metav1.ListOptions{})),
		"write a ConfigMap":                  second(core.ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: named}, metav1.CreateOptions{})),
		"change the inventory":               second(core.ConfigMaps(namespace).Patch(ctx, "inventory", types.MergePatchType, []byte(`{}`), none)),
		"list pods":                          second(core.Pods("").List(ctx, metav1.ListOptions{})),
		"make a pod":                         second(core.Pods(namespace).Create(ctx, &v1.Pod{ObjectMeta: named}, metav1.CreateOptions{})),
		"delete a pod":                       core.Pods(namespace).Delete(ctx, "plinth-agent-w1", metav1.DeleteOptions{}),
		"get itself another token":           second(core.ServiceAccounts(namespace).CreateToken(ctx, "plinth-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})),
		"get the controller's token":         second(core.ServiceAccounts(namespace).CreateToken(ctx, apiserver.ControllerName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})),
		"take a VIP":                         second(claims.Create(ctx, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.1"}}, metav1.CreateOptions{})),
		"have a VIP held by others":          second(claims.Patch(ctx, "203.0.113.1", types.MergePatchType, []byte(`{"metadata":{"annotations":{"plinth.dev/shared-by":"a/b"}}}`), none)),
		"release a VIP":                      claims.Delete(ctx, "203.0.113.1", metav1.DeleteOptions{}),
		"release all VIPs":                   claims.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		"make a Node":                        second(core.Nodes().Create(ctx, &v1.Node{ObjectMeta: named}, metav1.CreateOptions{})),
		"write its Node":                     second(core.Nodes().Update(ctx, w1, metav1.UpdateOptions{})),
		"write the whole status of its Node": second(core.Nodes().UpdateStatus(ctx, w1, metav1.UpdateOptions{})),
		"delete a Node":                      core.Nodes().Delete(ctx, "w2", metav1.DeleteOptions{}),
		"change a Service":                   second(core.Services("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{}`), none)),
		"write the status of a Service":      second(core.Services("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{}`), none, "status")),
		"give a Service endpoints":           second(c.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{ObjectMeta: named}, metav1.CreateOptions{})),
		"take the policy that binds it away": c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "plinth-agent", metav1.DeleteOptions{}),
		"give itself rights":                 second(c.RbacV1().ClusterRoles().Patch(ctx, "plinth-agent", types.MergePatchType, []byte(`{}`), none)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("to %s was let through, or failed for another reason: %v", what, err)
		}
	}
}

func patch(ctx context.Context, c kubernetes.Interface, node, subresource, body string) error {
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	_, err := c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, sub...)
	return err
}

// node creates a Node as a kubelet leaves it.
func node(t *testing.T, s *apiserver.Server, name string) {
	t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "KubeletNotReady"}}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	n.Status.NodeInfo.KernelVersion = "6.1"
	if _, err := s.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// boundToken is a token as the kubelet of a Node gets it for an agent's pod.
func boundToken(t *testing.T, s *apiserver.Server, node string) string {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plinth-agent-" + node, Namespace: namespace}}
	pod.Spec = v1.PodSpec{NodeName: node, ServiceAccountName: "plinth-agent", Containers: []v1.Container{{Name: "agent", Image: "plinth-agent"}}}
	made, err := s.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token(t, s, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: made.Name, UID: made.UID})
}

func token(t *testing.T, s *apiserver.Server, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	answer, err := s.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "plinth-agent", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func as(t *testing.T, s *apiserver.Server, token string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.BearerToken = token
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is what kubectl apply -k would apply.
func render(t *testing.T, folder string) string {
	t.Helper()
	return run(t, exec.Command(kubectlFile(t), "kustomize", filepath.Join("../../deploy", folder)), "")
}

// kubectlFile is kubectl as it was built with the API server.
func kubectlFile(t *testing.T) string {
	t.Helper()
	file, err := components.File("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func kubectl(t *testing.T, s *apiserver.Server, in string, args ...string) {
	t.Helper()
	run(t, exec.Command(kubectlFile(t), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...), in)
}

func run(t *testing.T, c *exec.Cmd, in string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, &errs)
	}
	return out.String()
}
