package services

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/test/apiserver"
)

const (
	oldNamespace = "kube-system"
	newNamespace = "plinth-system"
)

// in starts a controller manager that is elected in a namespace, with the rights of one that was
// installed there.
func (c *cluster) in(namespace string, flags ...string) *apiserver.Process {
	c.t.Helper()
	return c.elected(append([]string{"--kubeconfig=" + c.LimitedIn(namespace), "--namespace=" + namespace, "--leader-elect-resource-namespace=" + namespace}, flags...)...)
}

// acceptedIn returns the generation of the inventory that is in force in a namespace; empty: none is.
func (c *cluster) acceptedIn(namespace string) string {
	c.t.Helper()
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(c.t.Context(), source.AcceptedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return cm.Annotations[source.AnnotationGeneration]
}

// logged waits until the controller manager has logged something, and counts how often.
func (c *cluster) logged(text string) (times int) {
	c.t.Helper()
	c.Eventually(20*time.Second, "the controller manager logs "+text, func(context.Context) error {
		if times = strings.Count(c.Log(apiserver.ControllerName), text); times == 0 {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	return times
}

// toldOfAnother waits for the Event which says that the controller of a namespace waits.
func (c *cluster) toldOfAnother(namespace string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "an Event says why the controller of "+namespace+" waits", func(ctx context.Context) error {
		all, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=OtherInstallation,involvedObject.kind=Lease"})
		if err == nil && (len(all.Items) == 0 || !strings.Contains(all.Items[0].Message, "holds the lease of namespace "+oldNamespace)) {
			err = fmt.Errorf("there are %d: %+v", len(all.Items), all.Items)
		}
		return err
	})
}

// inventoryIn puts the inventory of the old namespace into another, with a pool that gives other addresses.
func (c *cluster) inventoryIn(namespace string) {
	c.t.Helper()
	text := apiserver.Document(`
  racks: [{name: r01, subnets: [10.10.1.0/26], machines: [{name: w1, addresses: [10.10.1.11]}]}]
  pools: [{name: other, addresses: [198.51.100.0/24]}]
`)
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inventory", Labels: map[string]string{source.LabelInventory: "dc1"}}, Data: map[string]string{"dc1.yaml": text}}
	if _, err := c.Client.CoreV1().ConfigMaps(namespace).Create(c.t.Context(), cm, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// TestASecondInstallationDoesNothingBesideTheFirst is what happens to somebody who installs into a
// namespace of its own over an installation in kube-system, and then removes one of them.
func TestASecondInstallationDoesNothingBesideTheFirst(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.pools(bothPool)
	first := c.in(oldNamespace)
	c.service("a")
	c.has("a", "192.0.2.0")
	w := c.watch()

	c.LimitedIn(newNamespace)
	c.inventoryIn(newNamespace)
	second := c.in(newNamespace)
	c.logged("holds the lease of namespace kube-system")
	c.toldOfAnother(newNamespace)
	first.Kill() // its machine is gone; another one takes over meanwhile, whatever the second one holds
	third := c.in(oldNamespace)
	c.service("b")
	c.has("b", "192.0.2.1")
	third.Terminate()

	// Nobody leads there any more, but what the cluster runs on is still there.
	c.logged("generation 1 of an inventory was accepted in namespace kube-system, and none in plinth-system")
	if got := c.acceptedIn(newNamespace); got != "" {
		t.Errorf("generation %s was accepted beside that of the first", got)
	}
	c.sawNothing(w)
	maps := c.Client.CoreV1().ConfigMaps(oldNamespace)
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: source.LabelAccepted}); err != nil {
		t.Fatal(err)
	}
	c.service("c")
	c.has("c", "198.51.100.0") // the other's pool: it acts now
	second.Kill()
}
