package source

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

func editWith(t *testing.T, all ...*v1.ConfigMap) Edit {
	t.Helper()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, cm := range all {
		if err := store.Add(cm); err != nil {
			t.Fatal(err)
		}
	}
	return read(store)
}

// A backup that is put back creates all copies of a ConfigMap in one second.
func TestOfCopiesOfOneSecondThatWhichIsInForceStays(t *testing.T) {
	const a, b, c = "dc1-2tg9k6h4fc", "dc1-m8b7ck72fg", "dc1-t5t5t5t5t5"
	copyOf := func(name, says string, age time.Duration) *v1.ConfigMap {
		return configMap(name, age, map[string]string{"dc1.yaml": text(says)})
	}
	for _, x := range []struct {
		name    string
		inForce string // empty: nothing is
		copies  []*v1.ConfigMap
		ready   bool
		says    []string // in the status
		silent  string   // not in the status
	}{
		{"nothing is in force", "", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "b", 0)}, false, []string{"error[P1018]", a + ", " + b}, "younger"},
		{"neither is in force", "c", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "b", 0)}, false, []string{"error[P1018]", a + ", " + b}, "younger"},
		{"the first is in force", "a", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "b", 0)}, true, []string{"warning[P1006]", b, "a copy of the same second is in force"}, "younger"},
		{"the last is in force", "b", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "b", 0)}, true, []string{"warning[P1006]", a, "a copy of the same second is in force"}, "younger"},
		{"the last of three", "c", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "b", 0), copyOf(c, "c", 0)}, true, []string{"warning[P1006]", a, b, "is in force"}, "younger"},
		{"both say the same", "", []*v1.ConfigMap{copyOf(a, "a", 0), copyOf(b, "a", 0)}, true, []string{"warning[P1006]", b, a + " says the same"}, "younger"},
		{"an older one of another age", "", []*v1.ConfigMap{copyOf(a, "a", time.Second), copyOf(b, "b", 0)}, true, []string{"warning[P1006]", a, b + " is younger"}, "error"},
		{"two older ones of one age", "", []*v1.ConfigMap{copyOf(a, "a", time.Second), copyOf(b, "b", time.Second), copyOf(c, "c", 0)}, true, []string{"warning[P1006]", a, b, c + " is younger"}, "error"},
	} {
		t.Run(x.name, func(t *testing.T) {
			k := reconcilerOf(fake.NewClientset())
			if x.inForce != "" {
				if _, status := take(t, k, editWith(t, copyOf("dc1", x.inForce, 0))); status[KeyReady] != "true" {
					t.Fatal(status)
				}
			}
			before := k.stored.have.inventory
			_, status := take(t, k, editWith(t, x.copies...))
			if ready := status[KeyReady] == "true"; ready != x.ready {
				t.Errorf("taken up: %v, want %v: %v", ready, x.ready, status)
			}
			for _, want := range x.says {
				if !strings.Contains(status[KeyProblems], want) {
					t.Errorf("the status says %q, want %s", status[KeyProblems], want)
				}
			}
			if strings.Contains(status[KeyProblems], x.silent) {
				t.Errorf("the status says %q", status[KeyProblems])
			}
			if x.inForce != "" && !document.Equal(k.stored.have.inventory, before) {
				t.Errorf("another inventory is in force:\n%s", document.Format(k.stored.have.inventory))
			}
		})
	}
}

// Two ConfigMaps, each with a copy, beside one without: what is in force is found among all choices.
func TestCopiesOfSeveralConfigMapsAreChosenTogether(t *testing.T) {
	const head = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  "
	pool := func(base, hash, address string) *v1.ConfigMap {
		return configMap(base+"-"+hash, 0, map[string]string{"pools.yaml": head + "pools: [{name: " + base + ", addresses: [" + address + "]}]\n"})
	}
	old := []*v1.ConfigMap{pool("x", "2222222222", "192.0.2.0/28"), pool("y", "bbbbbbbbbb", "198.51.100.0/28")}
	k := reconcilerOf(fake.NewClientset())
	if _, status := take(t, k, editWith(t, old...)); status[KeyReady] != "true" {
		t.Fatal(status)
	}
	proposed := editWith(t, append(old, pool("x", "bbbbbbbbbb", "192.0.2.0/27"), pool("y", "2222222222", "198.51.100.0/27"))...)
	for _, other := range []Edit{{}, {PassedOver: []string{"notes.yaml"}}} { // as files join
		if got := proposed.Join(other).chosen(k.stored.have.inventory); got.Problems.Err() != nil || len(got.Problems) != 2 {
			t.Errorf("of the copies of two ConfigMaps those in force are not found: %v", got.Problems)
		}
	}
	if proposed.Problems.Err() == nil || len(proposed.Problems) != 2 {
		t.Errorf("where nothing is known to be in force: %v", proposed.Problems)
	}
	for _, p := range proposed.Problems {
		if p.Code != inventory.CopiesOfOneAge {
			t.Errorf("%v", p)
		}
	}
}
