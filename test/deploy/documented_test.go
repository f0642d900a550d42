package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// version is what the programs under test are built as.
const version = "v9.8.7-test"

// built is one of our programs, built by the command of make build, with a version of the test's own.
func built(t *testing.T, folder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), folder)
	commands := run(t, exec.Command("make", "--dry-run", "--no-print-directory", "-C", "../..", "build", "VERSION="+version), "")
	build := regexp.MustCompile(`(?m)^(.* go build .* -o )\S+( \./cmd/` + folder + `)$`).FindStringSubmatch(commands)
	if build == nil {
		t.Fatalf("make build has no command for cmd/%s:\n%s", folder, commands)
	}
	shell := exec.Command("sh", "-e", "-c", build[1]+file+build[2])
	shell.Dir = "../.."
	run(t, shell, "")
	return file
}

// What the help of plinth validate and the guide of Git print, on what we ship.
func TestTheDocumentedPipesReadTheShippedOverlay(t *testing.T) {
	plinth := built(t, "plinth")
	const valid = "valid: inventory home with "
	rendered := render(t, "overlays/homelab")
	for name, c := range map[string]struct {
		args []string
		in   string
		want string
	}{
		"kubectl kustomize . | plinth validate -":             {[]string{"validate", "--strict", "-"}, rendered, valid},
		"plinth validate on the folder":                       {[]string{"validate", "--strict", "../../deploy/overlays/homelab"}, "", valid},
		"plinth diff of the two":                              {[]string{"diff", "../../deploy/overlays/homelab", "-"}, rendered, "nothing changes"},
		"kubectl kustomize . | plinth router-config ROUTER -": {[]string{"router-config", "gateway", "--os", "frr", "-"}, rendered, "router bgp "},
	} {
		t.Run(name, func(t *testing.T) {
			if out := run(t, exec.Command(plinth, c.args...), c.in); !strings.Contains(out, c.want) {
				t.Errorf("it prints\n%s", out)
			}
		})
	}
}

// The guide's own layout: its kustomization lies beside the files that it is made of.
func TestTheGuidesLayoutIsReadAsItStandsAndAsItIsRendered(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/inventory-in-git.md")
	if err != nil {
		t.Fatal(err)
	}
	kustomization := regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize.*?)```").FindSubmatch(guide)
	if kustomization == nil {
		t.Fatal("the guide has no kustomization any more: this test says nothing")
	}
	folder := t.TempDir()
	files, err := filepath.Glob("../../examples/two-rack/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, filepath.Base(file)), text)
	}
	put(t, filepath.Join(folder, "kustomization.yaml"), kustomization[1])
	plinth := built(t, "plinth")
	const valid = "valid: inventory dc1 with 2 racks"
	if out := run(t, exec.Command(plinth, "validate", folder), ""); !strings.Contains(out, valid) {
		t.Errorf("plinth validate inventory/ prints\n%s", out)
	}
	rendered := run(t, exec.Command(kubectlFile(t), "kustomize", folder), "")
	if out := run(t, exec.Command(plinth, "diff", folder, "-"), rendered); !strings.Contains(out, "nothing changes") {
		t.Errorf("rendered it is another inventory:\n%s", out)
	}
}

// Nothing is in force yet, and the first question is why: the pod of the Deployment that we
// ship waits for a Node that it fits on.
func TestStatusSaysThatTheControllerCannotBeScheduled(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, render(t, "base"), "apply", "--server-side", "-f", "-")
	ctx := t.Context()
	deployment, err := s.Client.AppsV1().Deployments(namespace).Get(ctx, "plinth-cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller-1", Namespace: namespace, Labels: template.Labels}, Spec: template.Spec}
	if pod, err = s.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const message = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message}}
	if _, err := s.Client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	status := exec.Command(built(t, "plinth"), "status", "--kubeconfig", s.Kubeconfig)
	out, err := status.CombinedOutput()
	if status.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "controller: pod controller-1 does not run: it cannot be scheduled: "+message) || !strings.Contains(string(out), "no inventory is in force") {
		t.Errorf("%v; it prints\n%s", err, out)
	}
}

func put(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
