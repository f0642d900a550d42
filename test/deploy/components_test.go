package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheComponentsOfTheDocsGoIntoTheShippedOverlay puts each list of components that the docs have
// in the place of the overlay's own. A second list beside it would be taken in its place without a word.
func TestTheComponentsOfTheDocsGoIntoTheShippedOverlay(t *testing.T) {
	lists := regexp.MustCompile("(?s)```yaml\n(?:# kustomization.yaml\n)?(components:\n(?:  - [^\n]*\n)+)")
	own := regexp.MustCompile(`components:\n(?:  - [^\n]*\n)+`)
	adds := map[string]string{"on-link": "NET_RAW", "beside-another-controller": "--leader-elect-resource-name=plinth-cloud-controller-manager", "deny-external-ips": "name: plinth-external-ips", "inventory-webhook": "kind: ValidatingWebhookConfiguration", "own-namespace": "kind: Namespace"}
	seen := map[string]bool{}
	for _, page := range []string{"tutorial/homelab.md", "guides/install.md", "guides/namespace.md"} {
		text := string(must(t)(os.ReadFile(filepath.Join("../../docs", page))).([]byte))
		for _, found := range lists.FindAllStringSubmatch(text, -1) {
			deploy := filepath.Join(t.TempDir(), "deploy")
			must(t)(nil, os.CopyFS(deploy, os.DirFS("../../deploy")))
			file := filepath.Join(deploy, "overlays", "homelab", "kustomization.yaml")
			overlay := string(must(t)(os.ReadFile(file)).([]byte))
			if !own.MatchString(overlay) {
				t.Fatalf("the overlay has no components:\n%s", overlay)
			}
			must(t)(nil, os.WriteFile(file, []byte(own.ReplaceAllString(overlay, found[1])), 0o600))
			rendered := run(t, exec.Command(kubectlFile(t), "kustomize", filepath.Dir(file)), "")
			for name, object := range adds {
				if !strings.Contains(found[1], "/components/"+name+"\n") {
					continue
				}
				seen[name] = true
				if !strings.Contains(rendered, object) {
					t.Errorf("%s: with\n%s there is no %s", page, found[1], object)
				}
			}
			if n := strings.Count(rendered, "namespace: kube-system\n"); n != 1 {
				t.Errorf("%s: with\n%s %d objects or references are in kube-system, want one RoleBinding", page, found[1], n)
			}
		}
	}
	for name := range adds {
		if !seen[name] {
			t.Errorf("no page names component %s: this test says nothing of it", name)
		}
	}
}
