package real

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/test/lab"
)

// refusal is what became of a first `helm install`, with an inventory in which two machines have one address.
type refusal struct {
	address string // of both
	helm    error  // that helm ended with
	log     string // of the Job that checks
	left    string // objects of Plinth's
}

// refused has the guide's command install an inventory with a mistake on a cluster without Plinth, and takes away what is
// left of that release.
func refused(ctx context.Context, g *Guide) (r refusal, err error) {
	machines := g.Lab.Topology.Machines()
	r.address = g.Lab.Topology.MachineAddress(machines[0].Name).V4.String()
	text := strings.Replace(lab.Inventory(g.Lab.Topology), g.Lab.Topology.MachineAddress(machines[1].Name).V4.String(), r.address, 1)
	blocks, err := g.Commands("### Or with Helm")
	if err = errors.Join(err, os.WriteFile(filepath.Join(g.Folder(), "mistake.yaml"), []byte(text), 0o644)); err != nil {
		return r, err
	}
	_, r.helm = g.Run(ctx, blocks[0], "=inventory.yaml'", "=mistake.yaml'")
	var err1, err2, err3 error
	r.log, err1 = g.Run(ctx, "kubectl -n "+lab.PlinthNamespace+" logs job/plinth-inventory-check")
	r.left, err2 = g.Run(ctx, "kubectl get daemonsets,deployments,serviceaccounts,configmaps,clusterroles -A -o name -l app.kubernetes.io/part-of=plinth")
	_, err3 = g.Run(ctx, "helm uninstall plinth -n "+lab.PlinthNamespace+"; kubectl -n "+lab.PlinthNamespace+" delete --ignore-not-found job,configmap plinth-inventory-check")
	return r, errors.Join(err1, err2, err3)
}

func TestHelmRefusesAnInventoryWithAMistakeBeforeItInstallsAnything(t *testing.T) {
	installed(t)
	if mistaken.helm == nil {
		t.Fatal("an inventory with a mistake was installed")
	}
	if !strings.Contains(mistaken.log, mistaken.address) || !strings.Contains(mistaken.log, "inventory.yaml:") {
		t.Errorf("the log of the Job names no line with %s:\n%s", mistaken.address, mistaken.log)
	}
	for name := range strings.Lines(mistaken.left) {
		if !strings.Contains(name, "inventory-check") {
			t.Errorf("left behind: %s", name)
		}
	}
}
