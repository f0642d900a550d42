//go:build chaos

package nodes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// TestNoSequenceOfEditsWithoutRetiredLosesANode holds the law of package
// inventory against the real lifecycle controller, for whom every Node that is
// not Ready and of which InstanceExists says no is to be deleted.
func TestNoSequenceOfEditsWithoutRetiredLosesANode(t *testing.T) {
	apiserver.Draw(t, testSequence)
}

func testSequence(t *testing.T, seed uint64) {
	const steps = 20
	c := newCluster(t, apiserver.Options{})
	c.start()
	names := []string{"w1", "w2", "w3", "w4"}
	c.edit(someMachines(names, func(string) string { return "active" }))
	for _, name := range names {
		c.register(node{name: name, notReady: true})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for step := range steps {
		what := c.randomEdit(r, names)
		t.Logf("step %d: %s", step, what)
		c.stays(1200*time.Millisecond, names...) // the lifecycle controller looks every second
	}
	for _, w := range c.Written(0) {
		if w.Verb == "delete" && w.Resource == "nodes" {
			t.Errorf("node %s was deleted", w.Name)
		}
	}
}

// someMachines is an inventory of machines with a state each; those without are left out.
func someMachines(names []string, state func(string) string) string {
	var b strings.Builder
	b.WriteString("  racks:\n    - name: r01\n      machines:\n        - {name: always, addresses: [10.10.1.10]}\n")
	for i, name := range names {
		if s := state(name); s != "" {
			fmt.Fprintf(&b, "        - {name: %s, addresses: [10.10.1.%d], state: %s}\n", name, i+11, s)
		}
	}
	return apiserver.Document(b.String())
}

// randomEdit makes one edit of any kind but one that retires a machine, and says which.
func (c *cluster) randomEdit(r *rand.Rand, names []string) string {
	c.t.Helper()
	states := []string{"", "planned", "active", "maintenance", "off"}
	text := someMachines(names, func(string) string { return states[r.IntN(len(states))] })
	switch r.IntN(6) {
	case 0:
		err := c.Client.CoreV1().ConfigMaps("kube-system").Delete(c.t.Context(), apiserver.InventoryName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			c.t.Fatal(err)
		}
		return "the ConfigMap is deleted"
	case 1:
		c.edit(text[:r.IntN(len(text))])
		return "half a file"
	case 2:
		c.edit(strings.Replace(text, "addresses", "adresses", 1))
		return "a word is misspelt"
	}
	allowed := fmt.Sprint(r.IntN(6))
	c.EditInventory(text, map[string]string{"plinth.dev/allow-removals": allowed})
	return "with leave to remove " + allowed + ":\n" + text
}
