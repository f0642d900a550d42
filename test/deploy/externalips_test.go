package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

// withoutExternalIPs is the value that has the chart refuse them.
var withoutExternalIPs = values{"controller": latest["controller"], "agent": latest["agent"], "admission": values{"denyExternalIPs": true}}

// component is deploy/base with components, as an overlay has them.
func component(t *testing.T, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Rel(folder, deploy)
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%s/base]\ncomponents:\n", from)
	for _, name := range names {
		overlay += fmt.Sprintf("  - %s/components/%s\n", from, name)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	if folder, err = filepath.Rel(deploy, folder); err != nil {
		t.Fatal(err)
	}
	return render(t, folder)
}

func TestTheChartRefusesExternalIPsAsTheComponentDoes(t *testing.T) {
	chart, err := template(namespace, withoutExternalIPs)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(objects(t, component(t, "deny-external-ips")), objects(t, chart)); d != "" {
		t.Errorf("deploy/base with the component (-) and deploy/helm/plinth (+) differ:\n%s", d)
	}
}

func TestNoPolicyOnExternalIPsIsThereUnlessItIsAskedFor(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, render(t, "base"), "apply", "--server-side", "-f", "-")
	_, err := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), "plinth-external-ips", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the policy is there (%v)", err)
	}
}

// Services that had external IPs before go on with them, or with fewer.
func TestExternalIPsAreRefusedAndWhatHadThemCanStillBeChanged(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	services := s.Client.CoreV1().Services("default")
	s.Eventually(20*time.Second, "namespace default", func(ctx context.Context) error {
		_, err := s.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	create := func(ctx context.Context, name string, ips ...string) error {
		svc := &v1.Service{Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}, ExternalIPs: ips}}
		svc.Name, svc.Finalizers = name, []string{"example.com/hold"}
		_, err := services.Create(ctx, svc, metav1.CreateOptions{})
		return err
	}
	must(t)(nil, create(t.Context(), "old", "192.0.2.1", "192.0.2.2"))
	must(t)(nil, create(t.Context(), "leaves", "192.0.2.3"))
	kubectl(t, s, component(t, "deny-external-ips"), "apply", "--server-side", "-f", "-")
	n := 0
	s.Eventually(30*time.Second, "the policy is in force", func(ctx context.Context) error {
		n++
		err := create(ctx, fmt.Sprint("early", n), "203.0.113.5")
		if err == nil {
			return fmt.Errorf("a Service with an external IP is let through")
		}
		return nil
	})
	err := create(t.Context(), "thief", "203.0.113.5")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "203.0.113.5") || !strings.Contains(err.Error(), "type LoadBalancer") {
		t.Errorf("a Service with an external IP: %v, want a refusal that names it and says what would be right", err)
	}
	must(t)(nil, create(t.Context(), "plain"))

	for _, c := range []struct {
		name, service, patch string
		allowed              bool
	}{
		{"a label", "old", `{"metadata":{"labels":{"a":"b"}}}`, true},
		{"a port", "old", `{"spec":{"ports":[{"port":8080}]}}`, true},
		{"its type", "old", `{"spec":{"type":"NodePort"}}`, true},
		{"the same in another order", "old", `{"spec":{"externalIPs":["192.0.2.2","192.0.2.1"]}}`, true},
		{"one in place of another", "old", `{"spec":{"externalIPs":["192.0.2.1","203.0.113.5"]}}`, false},
		{"one more", "old", `{"spec":{"externalIPs":["192.0.2.1","192.0.2.2","203.0.113.5"]}}`, false},
		{"one less", "old", `{"spec":{"externalIPs":["192.0.2.1"]}}`, true},
		{"the one it had", "old", `{"spec":{"externalIPs":["192.0.2.1","192.0.2.2"]}}`, false},
		{"none", "old", `{"spec":{"externalIPs":null}}`, true},
		{"a first one", "plain", `{"spec":{"externalIPs":["203.0.113.5"]}}`, false},
	} {
		_, err := services.Patch(t.Context(), c.service, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
		if c.allowed && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: was let through, or failed for another reason: %v", c.name, err)
		}
	}

	must(t)(nil, services.Delete(t.Context(), "leaves", metav1.DeleteOptions{}))
	if _, err := services.Patch(t.Context(), "leaves", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error("the finalizer of a Service that is being deleted:", err)
	}
	if _, err := services.Get(t.Context(), "leaves", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Service is still there (%v)", err)
	}
}
