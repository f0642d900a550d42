package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

// refusal is what became of a first `helm install`, with an inventory in which two machines have one address.
type refusal struct {
	address string // of both
	helm    error  // that helm ended with
	said    string // by the pod that checks
	left    string // objects of Plinth's
}

// refused has the guide's command install an inventory with a mistake on a cluster without Plinth, and takes away what is
// left of that release.
func refused(ctx context.Context, g *Guide) (r refusal, err error) {
	r.address, err = mistake(g)
	blocks, err1 := g.Commands("### Or with Helm")
	if err = errors.Join(err, err1); err != nil {
		return r, err
	}
	_, r.helm = g.Run(ctx, blocks[0], "=inventory.yaml'", "=mistake.yaml'")
	var err2, err3 error
	r.said, err1 = g.Run(ctx, blocks[1])
	r.left, err2 = g.Run(ctx, "kubectl get daemonsets,deployments,serviceaccounts,configmaps,clusterroles -A -o name -l app.kubernetes.io/part-of=plinth")
	_, err3 = g.Run(ctx, "helm uninstall plinth -n "+lab.PlinthNamespace+"; kubectl -n "+lab.PlinthNamespace+" delete --ignore-not-found job,configmap plinth-inventory-check")
	return r, errors.Join(err1, err2, err3)
}

// mistake writes mistake.yaml, the inventory with one address for two machines, where commands of the guide run.
func mistake(g *Guide) (address string, err error) {
	machines := g.Lab.Topology.Machines()
	address = g.Lab.Topology.MachineAddress(machines[0].Name).V4.String()
	text := strings.Replace(lab.Inventory(g.Lab.Topology), g.Lab.Topology.MachineAddress(machines[1].Name).V4.String(), address, 1)
	return address, os.WriteFile(filepath.Join(g.Folder(), "mistake.yaml"), []byte(text), 0o644)
}

// TestHelmRefusesAnUpgradeWithAMistakeAndChangesNothing upgrades the release, where there is one. An installation that is applied
// is told of mistakes by the webhook.
func TestHelmRefusesAnUpgradeWithAMistakeAndChangesNothing(t *testing.T) {
	l, g := installed(t)
	if *install != "helm" {
		return
	}
	before := ofPlinth(t, l)
	address, err := mistake(g)
	must(t, err)
	blocks, err := g.Commands("### Or with Helm")
	must(t, err)
	if out, err := g.Run(t.Context(), blocks[0], "helm install ", "helm upgrade ", "=inventory.yaml'", "=mistake.yaml'"); err == nil {
		t.Fatalf("an inventory with a mistake was taken:\n%s", out)
	}
	said, err := g.Run(t.Context(), blocks[1])
	must(t, err)
	if !strings.Contains(said, address) {
		t.Errorf("the pod that checks does not name %s:\n%s", address, said)
	}
	if after := ofPlinth(t, l); !maps.Equal(after, before) {
		t.Errorf("the upgrade was refused, and changed something: %v, before %v", after, before)
	}
	_, err = g.Run(t.Context(), blocks[0], "helm install ", "helm upgrade ") // the release is well again
	must(t, err)
}

// ofPlinth are the generation that is in force, and the resource versions of what a release may change.
func ofPlinth(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	found := map[string]string{}
	configs, err := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, m := range configs.Items {
		switch {
		case m.Name == "plinth-accepted":
			found["in force"] = m.Annotations["plinth.dev/generation"]
		case m.Labels["plinth.dev/inventory"] != "":
			found["ConfigMap "+m.Name] = m.ResourceVersion
		}
	}
	agents, err := l.Kube.AppsV1().DaemonSets(lab.PlinthNamespace).Get(t.Context(), "plinth-agent", metav1.GetOptions{})
	must(t, err)
	controller, err := l.Kube.AppsV1().Deployments(lab.PlinthNamespace).Get(t.Context(), "plinth-cloud-controller-manager", metav1.GetOptions{})
	must(t, err)
	found["agents"], found["controller"] = fmt.Sprint(agents.Generation), fmt.Sprint(controller.Generation)
	if found["in force"] == "" || len(found) < 4 {
		t.Fatalf("there is not all of Plinth: %v", found)
	}
	return found
}

func TestHelmRefusesAnInventoryWithAMistakeBeforeItInstallsAnything(t *testing.T) {
	installed(t)
	if mistaken.helm == nil {
		t.Fatal("an inventory with a mistake was installed")
	}
	if !strings.Contains(mistaken.said, mistaken.address) || !strings.Contains(mistaken.said, "inventory.yaml:") {
		t.Errorf("the pod that checks names no line with %s:\n%s", mistaken.address, mistaken.said)
	}
	for name := range strings.Lines(mistaken.left) {
		if !strings.Contains(name, "inventory-check") {
			t.Errorf("left behind: %s", name)
		}
	}
}
