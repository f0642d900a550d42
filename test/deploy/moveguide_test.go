package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

// commands are the first blocks of commands below headings of a guide that begin with these words.
func commands(t *testing.T, guide string, headings ...string) (blocks []string) {
	t.Helper()
	for _, heading := range headings {
		found := regexp.MustCompile("(?s)\n## " + regexp.QuoteMeta(heading) + "[^\n]*\n.*?```console\n(.*?)```").FindStringSubmatch(guide)
		if found == nil {
			t.Fatalf("the guide has no commands below %q", heading)
		}
		blocks = append(blocks, found[1])
	}
	return blocks
}

// TestTheGuideMovesWhatKubectlAppliesToANamespaceOfItsOwn runs its commands, with kustomize, where an
// installation was applied to kube-system and has an inventory in force.
func TestTheGuideMovesWhatKubectlAppliesToANamespaceOfItsOwn(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Controllers: true})
	folder := t.TempDir()
	copyTo(t, filepath.Join(folder, "deploy"), "../../deploy")
	overlay := filepath.Join(folder, "deploy/overlays/mine")
	copyTo(t, overlay, "../../deploy/overlays/homelab")
	file := filepath.Join(overlay, "kustomization.yaml")
	component := "components:\n  - ../../components/own-namespace # plinth-system; without it everything is in kube-system\n"
	before := strings.Replace(strings.ReplaceAll(text(t, file), "namespace: plinth-system", "namespace: kube-system"), component, "", 1)
	put(t, file, []byte(before))
	if err := os.Rename(built(t, "plinth"), filepath.Join(folder, "kubectl-plinth")); err != nil {
		t.Fatal(err)
	}
	shell := func(lines string) string { return s.Shell(folder, "PATH=$PWD:$PATH\n"+lines) }
	shell("kubectl apply -k deploy/overlays/mine")
	shell("kubectl -n kube-system create secret generic bgp --from-literal=tor=secret")
	stop := s.Run(must(t)(components.Plinths(t.Context(), apiserver.ControllerName, folder)).(string), "--kubeconfig="+s.Kubeconfig, "--secure-port=0", "--leader-elect-lease-duration=8s",
		"--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms")
	inForce(t, s, "kube-system")

	guide := text(t, "../../docs/guides/namespace.md")
	steps := commands(t, guide, "1. Stop", "2. Move", "3. Install", "4. Remove", "5. Clean up")
	shell(steps[0])
	stop() // nobody runs pods here
	t.Log(shell(steps[1]))
	put(t, file, []byte(text(t, "../../deploy/overlays/homelab/kustomization.yaml")))
	for _, step := range steps[2:] {
		shell(step)
	}
	inForce(t, s, ownNamespace)
	for _, what := range []string{"deployments", "daemonsets", "serviceaccounts", "roles", "configmaps", "rolebindings"} {
		left := shell("kubectl -n kube-system get " + what + " -o name")
		for line := range strings.Lines(left) {
			name := strings.TrimSpace(line)
			if strings.Contains(name, "plinth") && name != "rolebinding.rbac.authorization.k8s.io/plinth-cloud-controller-manager-auth" {
				t.Errorf("left in kube-system: %s", name)
			}
		}
	}
	if said := shell("kubectl plinth status || test $? = 1"); !strings.Contains(said, "inventory home") {
		t.Errorf("plinth status finds nothing: %s", said)
	}
}

// inForce waits until a namespace has an accepted inventory.
func inForce(t *testing.T, s *apiserver.Server, namespace string) {
	t.Helper()
	s.Eventually(30*time.Second, "an inventory is in force in "+namespace, func(ctx context.Context) error {
		_, err := s.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "plinth-accepted", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is none")
		}
		return err
	})
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
