// Package deploy checks the manifests of deploy/ against a real API server.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
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
	t.Run("what else it may do", func(t *testing.T) { refusals(t, thief) })
	t.Run("the kubelet is left alone", func(t *testing.T) {
		if err := patch(t.Context(), s.Client, "w2", "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`); err != nil {
			t.Error(err)
		}
	})
}

const fabricReady = `{"status":{"conditions":[{"type":"plinth.dev/FabricReady","status":"True","reason":"Ready","message":"routes 1/1, sessions 1/1"}]}}`

// refusals tries what no agent has to do.
func refusals(t *testing.T, c kubernetes.Interface) {
	ctx := t.Context()
	_, secrets := c.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	_, secret := c.CoreV1().Secrets("default").Get(ctx, "bgp", metav1.GetOptions{})
	_, maps := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	_, create := c.CoreV1().ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	_, pods := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	claim := c.NetworkingV1().IPAddresses().Delete(ctx, "203.0.113.1", metav1.DeleteOptions{})
	gone := c.CoreV1().Nodes().Delete(ctx, "w2", metav1.DeleteOptions{})
	_, service := c.CoreV1().Services("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
	for what, err := range map[string]error{
		"list Secrets": secrets, "read a Secret of another namespace": secret, "list other ConfigMaps": maps, "write a ConfigMap": create,
		"list pods": pods, "release a VIP": claim, "delete a Node": gone, "write the status of a Service": service,
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
