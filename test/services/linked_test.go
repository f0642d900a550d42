package services

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/components"
)

// TestStockServiceControllerGivesAVIPBackOnceNoStatusShowsIt runs a program that links the
// provider with the stock service controller, which takes its finalizer off a Service and
// clears the status after that.
func TestStockServiceControllerGivesAVIPBackOnceNoStatusShowsIt(t *testing.T) {
	c := newCluster(t)
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "linked")
	if err := components.GoBuild(t.Context(), filepath.Join(root, "test"), "-o", program, "./linked"); err != nil {
		t.Fatal(err)
	}
	c.pools(tinyPool)
	c.namespace("victim")
	w := c.watch()
	c.Spawn(program, "--kubeconfig="+c.Limited, "--secure-port=0", "--leader-elect=false", "--configure-cloud-routes=false")
	c.service("leaves", lingering)
	c.hasIn("default", "leaves", onlyAddress)
	c.remove("leaves")
	c.service("comes", in("victim"))
	c.hasIn("victim", "comes", onlyAddress)
	c.silent("leaves")
	c.service("turns")
	if err := c.Client.CoreV1().Services("victim").Delete(t.Context(), "comes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.hasIn("default", "turns", onlyAddress)
	w.mayMove("default/turns")
	c.change("turns", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
	c.free(onlyAddress)
	c.sawNothing(w)
}
