package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

const (
	webhook     = "plinth-inventory-webhook"
	webhookPort = 10269
)

// withWebhook is the value that has the chart judge edits before they are stored.
var withWebhook = values{"controller": latest["controller"], "agent": latest["agent"], "webhook": values{"enabled": true}}

func TestTheChartsWebhookIsThatOfTheComponent(t *testing.T) {
	chart, err := template(namespace, withWebhook)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(objects(t, component(t, "inventory-webhook")), objects(t, chart)); d != "" {
		t.Errorf("deploy/base with the component (-) and deploy/helm/plinth (+) differ:\n%s", d)
	}
}

// written is a ConfigMap as people keep it in a file.
func written(name, label, text string) string {
	out := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + namespace + "\n"
	if label != "" {
		out += "  labels: {plinth.dev/inventory: " + label + "}\n"
	}
	return out + "data:\n  racks.yaml: |\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// apply is kubectl apply, with its exit code and all that it prints.
func apply(t *testing.T, s *apiserver.Server, manifest string) (code int, out string) {
	t.Helper()
	var both bytes.Buffer
	c := exec.Command(kubectlFile(t), "--kubeconfig", s.Kubeconfig, "apply", "-f", "-")
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(manifest), &both, &both
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), both.String()
}

// hostAddress is one that an EndpointSlice may name: none of loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatalf("this machine has no address besides loopback: %v", all)
	return ""
}

// serveFrom is what Kubernetes' controllers write for the controller's pods: API servers up to 1.33 look for a webhook's Service in
// its Endpoints, others in its EndpointSlices.
func serveFrom(t *testing.T, s *apiserver.Server, address string) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	slice.Name, slice.Labels = webhook+"-1", map[string]string{discoveryv1.LabelServiceName: webhook}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
	slice.Ports = []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(webhookPort)), Protocol: new(v1.ProtocolTCP)}}
	must(t)(s.Client.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), slice, metav1.CreateOptions{}))
	kubectl(t, s, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": %q, "name": %q},
		"subsets": [{"addresses": [{"ip": %q}], "ports": [{"name": "https", "port": %d}]}]}`, namespace, webhook, address, webhookPort), "create", "-f", "-")
}

// TestApplyOfATypoFails is what people see: the shipped objects and rights, the program, and kubectl.
func TestApplyOfATypoFails(t *testing.T) {
	const racks = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec:\n  racks:\n    - {name: r1, units: 42, machines: [{name: w1, unit: 1, addresses: [10.1.1.11]}]}"
	typo := strings.Replace(racks, "unit: 1", "unti: 1", 1)
	s := apiserver.Start(t, apiserver.Options{Flags: []string{"--enable-aggregator-routing=true"}}) // the Service's endpoints: nobody runs kube-proxy
	kubectl(t, s, component(t, "inventory-webhook"), "apply", "--server-side", "-f", "-")
	address := hostAddress(t)
	serveFrom(t, s, address)

	program := must(t)(components.Plinths(t.Context(), apiserver.ControllerName, t.TempDir())).(string)
	config := s.WriteKubeconfig("ccm", s.AccountToken(apiserver.ControllerName))
	replica := func(port int) (stop func()) {
		return s.Run(program, "--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
			"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=true", "--leader-elect-resource-namespace="+namespace,
			fmt.Sprintf("--inventory-webhook-address=%s:%d", address, port))
	}
	stopLeader := replica(webhookPort + 1) // and nobody asks it
	s.Eventually(time.Minute, "a replica leads", func(ctx context.Context) error {
		lease, err := s.Client.CoordinationV1().Leases(namespace).Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = errors.New("nobody holds the lease")
		}
		return err
	})
	stop := replica(webhookPort) // one that does not lead answers as well
	n := 0
	s.Eventually(time.Minute, "the webhook answers", func(context.Context) error {
		n++
		if code, out := apply(t, s, written(fmt.Sprint("early-", n), "home", typo)); code == 0 {
			return fmt.Errorf("a typo is let through: %s", out)
		}
		return nil
	})

	code, out := apply(t, s, written("racks", "home", typo))
	for _, want := range []string{`"inventory.plinth.dev"`, "configmap/kube-system/racks/racks.yaml:6:51: error[P0201]", `did you mean "unit"?`} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %s in\n%s", code, want, out)
		}
	}
	if _, err := s.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "racks", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap is there (%v)", err)
	}
	for name, manifest := range map[string]string{
		"a valid one":                   written("racks", "home", racks),
		"a part that refers to another": written("more", "home", strings.Replace(racks, "units: 42", "peers: [elsewhere]", 1)),
		"an unrelated ConfigMap":        written("settings", "", typo),
	} {
		if code, out := apply(t, s, manifest); code != 0 || strings.Contains(out, "Warning") {
			t.Errorf("%s: exit %d\n%s", name, code, out)
		}
	}
	if code, out := apply(t, s, written("racks", "home", typo)); code != 1 {
		t.Errorf("a typo in what was right: exit %d\n%s", code, out)
	}
	if kept := must(t)(s.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "racks", metav1.GetOptions{})).(*v1.ConfigMap); strings.Contains(kept.Data["racks.yaml"], "unti") {
		t.Errorf("the typo was stored: %s", kept.Data["racks.yaml"])
	}

	// What is applied again leaves the certificate where it is.
	before := authorities(t, s)
	kubectl(t, s, component(t, "inventory-webhook"), "apply", "--server-side", "-f", "-")
	if after := authorities(t, s); len(before) == 0 || !bytes.Equal(before, after) {
		t.Errorf("the authority was %q and is %q", before, after)
	}

	stop()
	if code, out := apply(t, s, written("racks", "home", typo)); code != 0 {
		t.Errorf("without the webhook: exit %d\n%s", code, out)
	}
	stopLeader()
}

func authorities(t *testing.T, s *apiserver.Server) []byte {
	t.Helper()
	config := must(t)(s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), webhook, metav1.GetOptions{})).(*admissionv1.ValidatingWebhookConfiguration)
	return config.Webhooks[0].ClientConfig.CABundle
}

// The rights to a Secret are there only where the webhook is.
func TestTheControllerHasNoSecretWithoutTheWebhook(t *testing.T) {
	plain, err := template(namespace, latest)
	if err != nil {
		t.Fatal(err)
	}
	for name, manifest := range map[string]string{"base": render(t, "base"), "chart": plain} {
		if strings.Contains(manifest, webhook) {
			t.Errorf("%s has %s", name, webhook)
		}
	}
}
