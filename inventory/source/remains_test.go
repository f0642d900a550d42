package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// pooled is [layout] with a pool whose name tells editions apart.
func pooled(pool string, racks map[string]string) string {
	return strings.Replace(layout(racks), "  racks:\n", "  safety: {maxRemoved: 100%}\n  pools: [{name: "+pool+", addresses: [203.0.113.0/24]}]\n  racks:\n", 1)
}

// spoiling are ways in which people break what is stored, of generation 2 with the racks r0 and r1.
var spoiling = map[string]func(s spoiler){
	"the text of what lists the slices is no YAML": func(s spoiler) { s.set(AcceptedName, keyInventory, "{") },
	"its text is empty":                            func(s spoiler) { s.set(AcceptedName, keyInventory, "") },
	"it has no list of racks":                      func(s spoiler) { s.set(AcceptedName, keyRacks, "") },
	"its list is no list":                          func(s spoiler) { s.set(AcceptedName, keyRacks, "all of them\n") },
	"it is gone":                                   func(s spoiler) { s.delete(AcceptedName) },
	"a slice is gone with its copy":                func(s spoiler) { s.delete(sliceName("r1", 2), copyName("r1")) },
	"a slice is another text":                      func(s spoiler) { s.set(sliceName("r1", 2), keyInventory, "{") },
	"a machine in it has no name":                  func(s spoiler) { s.replace(sliceName("r1", 2), "- name: c", "- type: c") },
}

// spoiler breaks what is stored; an empty value takes the key away.
type spoiler struct {
	t      *testing.T
	client *fake.Clientset
}

func (s spoiler) get(name string) *v1.ConfigMap {
	s.t.Helper()
	cm, err := s.client.CoreV1().ConfigMaps(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return cm
}

func (s spoiler) set(name, key, value string) {
	s.t.Helper()
	cm := s.get(name)
	if cm.Data[key] = value; value == "" {
		delete(cm.Data, key)
	}
	if _, err := s.client.CoreV1().ConfigMaps(namespace).Update(s.t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s spoiler) replace(name, old, by string) {
	s.t.Helper()
	was := s.get(name).Data[keyInventory]
	if !strings.Contains(was, old) {
		s.t.Fatalf("%s has no %q:\n%s", name, old, was)
	}
	s.set(name, keyInventory, strings.Replace(was, old, by, 1))
}

func (s spoiler) delete(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.client.CoreV1().ConfigMaps(namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// twoGenerations stores a generation, and then one with another pool and machine: b is held, d is new.
func twoGenerations(t *testing.T, client *fake.Clientset) (k *Reconciler, now Edit) {
	t.Helper()
	k = reconcilerOf(client)
	for _, text := range []string{pooled("old", map[string]string{"r0": "a b", "r1": "c"}), pooled("new", map[string]string{"r0": "a", "r1": "c d"})} {
		take(t, k, proposed(text))
		now = proposed(text)
	}
	return k, now
}

// TestWhatIsSpoiltIsStoredAgainByWhoKnowsIt while it runs.
func TestWhatIsSpoiltIsStoredAgainByWhoKnowsIt(t *testing.T) {
	for what, spoil := range spoiling {
		t.Run(what, func(t *testing.T) {
			ctx, client := t.Context(), fake.NewClientset()
			k, _ := twoGenerations(t, client)
			inForce := k.stored.have.inventory
			spoil(spoiler{t, client})
			k.Enforce, k.stored.loaded = func(*inventory.Inventory) { t.Error("something else came into force") }, false
			if err := k.step(ctx); err != nil {
				t.Fatal(err)
			}
			left, err := Accepted(ctx, client, namespace)
			if err != nil || !document.Equal(left, inForce) {
				t.Errorf("stored is %v (%v)", place(left), err)
			}
			checkStatus(t, client, "true", "3", "")
			checkStore(t, client, "")
			if err := k.Current(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhoeverComesAfterItIsSpoiltGoesOnAndMendsIt has the edit at hand be wrong first. What can be read is in force
// meanwhile, and nothing is written; then the edit is right.
func TestWhoeverComesAfterItIsSpoiltGoesOnAndMendsIt(t *testing.T) {
	for what, spoil := range spoiling {
		t.Run(what, func(t *testing.T) {
			ctx, client := t.Context(), fake.NewClientset()
			first, whole := twoGenerations(t, client)
			inForce := first.stored.have.inventory
			for name, block := range blocks(inForce) {
				addNode(t, client, inForce, name, block)
			}
			spoil(spoiler{t, client})
			before := acceptedNow(t, client)

			k := reconcilerOf(client)
			var has *inventory.Inventory
			k.Enforce = func(inv *inventory.Inventory) { has = inv }
			wrong := proposed(strings.Replace(string(whole.Documents[0].Data), "pools:", "poools:", 1))
			for range 3 {
				if err := k.step(ctx); !errors.Is(err, ErrUnreadable) {
					t.Fatalf("its error is %v", err)
				}
				k.take(wrong)
			}
			if has == nil || len(has.Pools) != 1 {
				t.Fatalf("in force is %v", has)
			}
			if a, _ := has.Machine("a"); fmt.Sprint(a.PodCIDRs) != blocks(inForce)["a"] {
				t.Errorf("a is %+v", a)
			}
			if after := acceptedNow(t, client); !maps.Equal(before, after) {
				t.Errorf("stored was\n%v\nand is\n%v", before, after)
			}
			checkStatus(t, client, "false", "2", "poools")
			checkStore(t, client, "it cannot be read")
			if n := testutil.ToFloat64(k.Metrics.unreadable); n != 1 {
				t.Errorf("the metric says %v", n)
			}
			if k.Current(ctx) == nil {
				t.Error("a Node may be deleted by what is in force here")
			}
			if left, err := Accepted(ctx, client, namespace); !errors.Is(err, ErrUnreadable) || !document.Equal(left, has) {
				t.Errorf("others read %v (%v), want what is in force here", left, err)
			}

			k.take(whole)
			if err := k.step(ctx); err != nil {
				t.Fatal(err)
			}
			checkMended(t, k, client, inForce)
		})
	}
}

// checkMended checks that what is stored is as it was before somebody spoilt it.
func checkMended(t *testing.T, k *Reconciler, client *fake.Clientset, was *inventory.Inventory) {
	t.Helper()
	left, err := Accepted(t.Context(), client, namespace)
	if err != nil || !document.Equal(left, k.stored.have.inventory) {
		t.Fatalf("stored is %v (%v)", place(left), err)
	}
	if !maps.Equal(place(left), place(was)) || len(left.Pools) != 1 || left.Pools[0].Name != "new" {
		t.Errorf("stored is %v with the pools %v, and was %v", place(left), left.Pools, place(was))
	}
	if b, _ := left.Machine("b"); !b.Held {
		t.Error("b is not held any more")
	}
	agentsHave(t, client, left)
	checkStatus(t, client, "true", fmt.Sprint(k.stored.have.generation), "")
	checkStore(t, client, "")
	if n := testutil.ToFloat64(k.Metrics.unreadable); n != 0 {
		t.Errorf("the metric says %v", n)
	}
	if err := k.Current(t.Context()); err != nil {
		t.Error(err)
	}
}

// addNode makes the Node of a machine.
func addNode(t *testing.T, client *fake.Clientset, inv *inventory.Inventory, name, block string) {
	t.Helper()
	m, _ := inv.Machine(name)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{inventory.LabelRack: m.Rack}}}
	n.Spec.ProviderID, n.Spec.PodCIDRs = m.ProviderID(), strings.Fields(strings.Trim(block, "[]"))
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}, {Type: v1.NodeInternalIP, Address: m.Addresses[0].String()}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsSpoiltIsAsBeforeOnceItIsRestored by hand, while nobody knows it and the edit at hand is wrong.
func TestWhatIsSpoiltIsAsBeforeOnceItIsRestored(t *testing.T) {
	for what, spoil := range spoiling {
		t.Run(what, func(t *testing.T) {
			ctx, client := t.Context(), fake.NewClientset()
			first, _ := twoGenerations(t, client)
			was := first.stored.have.parts
			spoil(spoiler{t, client})
			k, wrong := reconcilerOf(client), proposed("{")
			k.take(wrong)
			if err := k.step(ctx); !errors.Is(err, ErrUnreadable) {
				t.Fatalf("its error is %v", err)
			}
			restore(ctx, t, client, was)
			if err := k.step(ctx); err != nil {
				t.Fatal(err)
			}
			if !document.Equal(k.stored.have.inventory, first.stored.have.inventory) || k.stored.have.generation != 2 {
				t.Errorf("in force is generation %d, %v", k.stored.have.generation, place(k.stored.have.inventory))
			}
			checkStatus(t, client, "false", "2", "P01")
			checkStore(t, client, "")
			if err := k.Current(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func restore(ctx context.Context, t *testing.T, client *fake.Clientset, parts map[string]*v1.ConfigMap) {
	t.Helper()
	for _, cm := range parts {
		_ = client.CoreV1().ConfigMaps(namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{})
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsDeletedToBeginAnewIsBegunAnew where nobody knows what was in force.
func TestWhatIsDeletedToBeginAnewIsBegunAnew(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	first, now := twoGenerations(t, client)
	spoiling["it is gone"](spoiler{t, client})
	k, wrong := reconcilerOf(client), proposed("{")
	k.take(wrong)
	if err := k.step(ctx); !errors.Is(err, ErrUnreadable) {
		t.Fatalf("its error is %v", err)
	}
	for name := range first.stored.have.parts {
		_ = client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	k.take(now)
	k.stored.loaded = false
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	if _, there := k.stored.have.inventory.Machine("b"); there || k.stored.have.generation != 1 {
		t.Errorf("in force is generation %d, %v", k.stored.have.generation, place(k.stored.have.inventory))
	}
	checkStatus(t, client, "true", "1", "")
}

// TestPodCIDRsThatNodesHaveAreNotGivenToOthersThoughNothingCanBeRead: the machine that was held is held again.
func TestPodCIDRsThatNodesHaveAreNotGivenToOthersThoughNothingCanBeRead(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	first, _ := twoGenerations(t, client)
	inForce := first.stored.have.inventory
	for name, block := range blocks(inForce) {
		addNode(t, client, inForce, name, block)
	}
	s := spoiler{t, client}
	for name := range first.stored.have.parts {
		s.set(name, keyInventory, "{")
	}
	k, next := reconcilerOf(client), proposed(pooled("new", map[string]string{"r0": "a e", "r1": "c d"})) // e is new
	k.take(next)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	keptBlocks(t, inForce, k.stored.have.inventory)
	seen := map[string]string{}
	for name, block := range blocks(k.stored.have.inventory) {
		if other, there := seen[block]; there {
			t.Errorf("%s and %s both have %s", name, other, block)
		}
		seen[block] = name
	}
	if b, _ := k.stored.have.inventory.Machine("b"); !b.Held || b.Rack != "r0" {
		t.Errorf("b is %+v", b)
	}
	checkStatus(t, client, "true", fmt.Sprint(k.stored.have.generation), "")
}

// TestAnAgentKeepsWhatItHasWhereTheTextIsGone: as YAML an empty text is no mistake.
func TestAnAgentKeepsWhatItHasWhereTheTextIsGone(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	twoGenerations(t, client)
	type got struct {
		inv *inventory.Inventory
		err error
	}
	all := make(chan got, 9)
	go Follow(ctx, client, namespace, "r0", "a", func(f Followed, err error) { all <- got{f.Inventory, err} })
	if g := <-all; g.inv == nil || len(g.inv.Pools) != 1 {
		t.Fatalf("it gets %+v", g)
	}
	spoiler{t, client}.set(AcceptedName, keyInventory, "")
	if g := <-all; g.inv != nil || !errors.Is(g.err, ErrUnreadable) {
		t.Errorf("it gets %+v", g)
	}
}
