package deploy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"plinth.dev/plinth/test/apiserver"
)

// ownNamespace is where the guides have new installations.
const ownNamespace = "plinth-system"

// TestTheComponentPutsAllIntoANamespaceOfItsOwn compares it with the chart, to which Helm gives the
// namespace, with all that can be turned on.
func TestTheComponentPutsAllIntoANamespaceOfItsOwn(t *testing.T) {
	all := objects(t, component(t, "inventory-webhook", "deny-external-ips", "own-namespace"))
	level := (&unstructured.Unstructured{Object: all["Namespace plinth-system"]}).GetLabels()["pod-security.kubernetes.io/enforce"]
	if level != "privileged" {
		t.Errorf("the namespace allows pods of level %q: agents have the host's network", level)
	}
	delete(all, "Namespace plinth-system")
	chart, err := template(ownNamespace, values{
		"controller": latest["controller"], "agent": latest["agent"], "webhook": values{"enabled": true}, "admission": values{"denyExternalIPs": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all, objects(t, chart)); d != "" {
		t.Errorf("deploy/base with the component (-) and deploy/helm/plinth (+) differ:\n%s", d)
	}
	for name, o := range all {
		in := (&unstructured.Unstructured{Object: o}).GetNamespace()
		if in != "" && in != ownNamespace && name != "RoleBinding plinth-cloud-controller-manager-auth" {
			t.Errorf("%s is in namespace %s", name, in)
		}
	}
}

// TestTwoReleasesStandSideBySide has them share no object: so one can take the other's place.
func TestTwoReleasesStandSideBySide(t *testing.T) {
	first, err := template(namespace, everything(t))
	if err != nil {
		t.Fatal(err)
	}
	beside := everything(t)
	beside["fullnameOverride"], beside["webhook"] = ownNamespace, values{"enabled": false} // as the guide has it
	beside["agent"].(values)["metricsPort"] = 0
	for _, kind := range []string{"podMonitor", "serviceMonitor"} {
		beside["monitoring"].(values)[kind].(values)["enabled"] = false
	}
	second, err := template(ownNamespace, beside)
	if err != nil {
		t.Fatal(err)
	}
	theirs := objects(t, first)
	for name, o := range objects(t, second) {
		was, there := theirs[name]
		if there && (&unstructured.Unstructured{Object: was}).GetNamespace() == (&unstructured.Unstructured{Object: o}).GetNamespace() {
			t.Errorf("both have %s", name)
		}
	}
}

// TestAControllerWritesConfigMapsOfItsOwnNamespaceAlone asks the API server.
func TestAControllerWritesConfigMapsOfItsOwnNamespaceAlone(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, render(t, "overlays/homelab"), "apply", "--server-side", "-f", "-")
	for _, c := range []struct {
		verb, resource, name, in string
		allowed                  bool
	}{
		{"update", "configmaps", "plinth-accepted", ownNamespace, true},
		{"create", "leases", "", ownNamespace, true},
		{"update", "leases", "cloud-controller-manager", ownNamespace, true},
		{"list", "leases", "cloud-controller-manager", "", true}, // whether another namespace has one
		{"list", "configmaps", "plinth-accepted", "", true},
		{"list", "leases", "", "", false},
		{"list", "configmaps", "", "", false},
		{"list", "configmaps", "", namespace, false},
		{"get", "configmaps", "kubeadm-config", namespace, false},
		{"create", "configmaps", "", namespace, false},
		{"update", "configmaps", "plinth-accepted", namespace, false},
		{"delete", "configmaps", "coredns", namespace, false},
		{"update", "leases", "cloud-controller-manager", namespace, false},
		{"get", "secrets", "bgp", ownNamespace, false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + ownNamespace + ":" + apiserver.ControllerName,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: c.verb, Group: groupOf(c.resource), Resource: c.resource, Name: c.name, Namespace: c.in,
			},
		}}
		got := must(t)(s.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})).(*authorizationv1.SubjectAccessReview)
		if got.Status.Allowed != c.allowed {
			t.Errorf("to %s %s %q of namespace %q: allowed %v, want %v", c.verb, c.resource, c.name, c.in, got.Status.Allowed, c.allowed)
		}
	}
}

func groupOf(resource string) string {
	if resource == "leases" {
		return "coordination.k8s.io"
	}
	return ""
}

// TestAnInstallationInKubeSystemIsUpgradedInPlace renders what an upgrade of an older installation
// applies: base as it is, which says kube-system everywhere.
func TestAnInstallationInKubeSystemIsUpgradedInPlace(t *testing.T) {
	base := run(t, exec.Command(kubectlFile(t), "kustomize", "../../deploy/base"), "")
	if strings.Contains(base, ownNamespace) || !strings.Contains(base, "namespace: "+namespace) {
		t.Errorf("deploy/base is in another namespace than it was:\n%s", base)
	}
}
