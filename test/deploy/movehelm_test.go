//go:build slow

package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/guide"
)

// TestTheGuideMovesARelease runs the guide's commands with Helm, whose program takes long to build: two releases stand
// side by side for a while, and the newer one is left.
func TestTheGuideMovesARelease(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Controllers: true})
	folder, shell := clone(t, s)
	if err := os.Symlink(must(t)(components.Helm(t.Context())).(string), filepath.Join(folder, "helm")); err != nil {
		t.Fatal(err)
	}
	inventory := text(t, "../../deploy/overlays/homelab/inventory.yaml")
	put(t, filepath.Join(folder, "values.yaml"), []byte("inventory:\n  name: home\n  validate: false # nobody runs pods here\n  files:\n    home.yaml: |\n      "+
		strings.ReplaceAll(strings.TrimSpace(inventory), "\n", "\n      ")+"\nwebhook: {enabled: true}\n"))
	shell("helm install plinth deploy/helm/plinth -n kube-system -f values.yaml")
	stop := controllerIn(t, s, folder)

	page := must(t)(guide.Read("../..", "namespace.md")).(string)
	steps := commands(t, page, "1. Stop", "2. Move", "5. Clean up")
	install := guide.Blocks(must(t)(guide.Section(page, "3. Install")).(string))[1]
	if !strings.HasPrefix(install, "helm install ") {
		t.Fatalf("the guide installs with\n%s", install)
	}
	shell(steps[0])
	stop()
	t.Log(shell(steps[1]))
	shell(install)
	shell("helm uninstall plinth -n kube-system")
	shell(steps[2])
	moved(t, s, shell, "plinth-system")
	shell("helm upgrade plinth deploy/helm/plinth -n plinth-system -f values.yaml --set fullnameOverride=plinth-system")
	if serves := shell("kubectl get validatingwebhookconfigurations -o jsonpath='{.items[*].webhooks[*].clientConfig.service.namespace}'"); serves != ownNamespace {
		t.Errorf("the webhook of before the move is in namespace %q", serves)
	}
}
