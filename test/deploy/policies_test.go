package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// The types of an API server are those of its version: an expression that names a field
// which only newer ones have gets a warning, and a Node may get fields that no expression
// names. kube-controller-manager checks the types, and writes into the policy what it found.
func TestPoliciesAndManifestsAreInstalledWithoutWarnings(t *testing.T) {
	chart, err := template(namespace, latest)
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.Start(t, apiserver.Options{Controllers: true})
	for name, manifest := range map[string]string{
		"base": render(t, "base"), "overlays/homelab": render(t, "overlays/homelab"), "chart": chart,
		"components/deny-external-ips": component(t, "deny-external-ips"), "components/inventory-webhook": component(t, "inventory-webhook"),
		"components/own-namespace": component(t, "inventory-webhook", "deny-external-ips", "on-link", "beside-another-controller", "own-namespace"),
	} {
		t.Run(name, func(t *testing.T) {
			var out, warnings bytes.Buffer
			apply := exec.Command(kubectlFile(t), "--kubeconfig", s.Kubeconfig, "apply", "--server-side", "-f", "-")
			apply.Stdin, apply.Stdout, apply.Stderr = strings.NewReader(manifest), &out, &warnings
			if err := apply.Run(); err != nil || warnings.Len() > 0 {
				t.Errorf("%v: %v\n%s", apply, err, &warnings)
			}
			defer kubectl(t, s, manifest, "delete", "-f", "-")
			want := strings.Count(manifest, "\nkind: ValidatingAdmissionPolicy\n")
			if want == 0 {
				t.Fatal("there is no policy in the manifest: this test says nothing")
			}
			for _, p := range typeChecked(t, s, want) {
				for _, w := range p.Status.TypeChecking.ExpressionWarnings {
					t.Errorf("policy %s: %s: %s", p.Name, w.FieldRef, w.Warning)
				}
			}
		})
	}
}

// typeChecked returns the policies once the types of so many have been checked.
func typeChecked(t *testing.T, s *apiserver.Server, want int) []admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	var policies []admissionv1.ValidatingAdmissionPolicy
	s.Eventually(time.Minute, "the policies' types are checked", func(ctx context.Context) error {
		list, err := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		policies = list.Items
		if len(policies) != want {
			return fmt.Errorf("there are %d policies, want %d", len(policies), want)
		}
		var unchecked []error
		for _, p := range policies {
			if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				unchecked = append(unchecked, fmt.Errorf("policy %s of generation %d has the status %+v", p.Name, p.Generation, p.Status))
			}
		}
		return errors.Join(unchecked...)
	})
	return policies
}
