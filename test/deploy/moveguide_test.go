package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/guide"
)

// commands are the first blocks of commands below headings of a guide that begin with these words.
func commands(t *testing.T, page string, headings ...string) (blocks []string) {
	t.Helper()
	for _, heading := range headings {
		section, err := guide.Section(page, heading)
		found := guide.Blocks(section)
		if err != nil || len(found) == 0 {
			t.Fatalf("the guide has no commands below %q: %v", heading, err)
		}
		blocks = append(blocks, found[0])
	}
	return blocks
}

// TestTheGuideMovesWhatKubectlAppliesToANamespaceOfItsOwn runs its commands, with kustomize, where an
// installation was applied to kube-system and has an inventory in force.
func TestTheGuideMovesWhatKubectlAppliesToANamespaceOfItsOwn(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Controllers: true})
	folder, shell := clone(t, s)
	overlay := filepath.Join(folder, "deploy/overlays/mine")
	copyTo(t, overlay, "../../deploy/overlays/homelab")
	file := filepath.Join(overlay, "kustomization.yaml")
	component := "components:\n  - ../../components/own-namespace # plinth-system; without it everything is in kube-system\n"
	before := strings.Replace(strings.ReplaceAll(text(t, file), "namespace: plinth-system", "namespace: kube-system"), component, "", 1)
	put(t, file, []byte(before))
	shell("kubectl apply -k deploy/overlays/mine")
	shell("kubectl -n kube-system create secret generic bgp --from-literal=tor=secret")
	stop := controllerIn(t, s, folder)

	page := must(t)(guide.Read("../..", "namespace.md")).(string)
	steps := commands(t, page, "1. Stop", "2. Move", "3. Install", "4. Remove", "5. Clean up")
	shell(steps[0])
	stop() // nobody runs pods here
	t.Log(shell(steps[1]))
	put(t, file, []byte(text(t, "../../deploy/overlays/homelab/kustomization.yaml")))
	for _, step := range steps[2:] {
		shell(step)
	}
	moved(t, s, shell, "plinth")
}

// clone is a folder with what a clone has of deploy/, and what runs lines of a shell there, with kubectl and its plugin plinth at
// hand.
func clone(t *testing.T, s *apiserver.Server) (folder string, shell func(lines string) string) {
	t.Helper()
	folder = t.TempDir()
	copyTo(t, filepath.Join(folder, "deploy"), "../../deploy")
	if err := os.Rename(built(t, "plinth"), filepath.Join(folder, "kubectl-plinth")); err != nil {
		t.Fatal(err)
	}
	return folder, func(lines string) string { return s.Shell(folder, "PATH=$PWD:$PATH\n"+lines) }
}

// controllerIn runs a controller manager in kube-system, in the place of the pods there, until stop is called, and waits
// until it has an inventory in force.
func controllerIn(t *testing.T, s *apiserver.Server, folder string) (stop func()) {
	t.Helper()
	stop = s.Run(must(t)(components.Plinths(t.Context(), apiserver.ControllerName, folder)).(string), "--kubeconfig="+s.Kubeconfig, "--secure-port=0", "--leader-elect-lease-duration=8s",
		"--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms")
	inForce(t, s, "kube-system")
	return stop
}

// moved makes sure that all there is of Plinth is in the namespace of its own, but for the RoleBinding by which its controller
// may read how API servers are authenticated. release is what names begin with.
func moved(t *testing.T, s *apiserver.Server, shell func(lines string) string, release string) {
	t.Helper()
	inForce(t, s, ownNamespace)
	for _, what := range []string{"deployments", "daemonsets", "serviceaccounts", "roles", "configmaps", "rolebindings"} {
		left := shell("kubectl -n kube-system get " + what + " -o name")
		for line := range strings.Lines(left) {
			name := strings.TrimSpace(line)
			if strings.Contains(name, "plinth") && name != "rolebinding.rbac.authorization.k8s.io/"+release+"-cloud-controller-manager-auth" {
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
