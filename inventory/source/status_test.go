package source

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
)

// editOf is an edit of ConfigMaps with these documents, the first by name the youngest.
func editOf(t *testing.T, documents map[string]string) Edit {
	t.Helper()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for i, name := range slices.Sorted(maps.Keys(documents)) {
		if err := store.Add(configMap(name, time.Duration(i)*time.Hour, map[string]string{"dc1.yaml": documents[name]})); err != nil {
			t.Fatal(err)
		}
	}
	return read(store)
}

// told has the Events of a reconciler, as "reason name".
type told []string

func (e *told) Event(object runtime.Object, _, reason, message string) {
	*e = append(*e, reason+" "+object.(*v1.ObjectReference).Name)
	if len(message) > 1024 || !utf8.ValidString(message) {
		*e = append(*e, "which is not a message of 1 KiB")
	}
}

// take has a reconciler decide on an edit, and returns what its Events and the status tell of it.
func take(t *testing.T, k *Reconciler, e Edit) (events told, status map[string]string) {
	t.Helper()
	k.take(e)
	k.Recorder = &events
	if err := k.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	cm, err := k.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), StatusName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(events)
	return events, cm.Data
}

// TestAnEditIsToldOnTheConfigMapsThatChanged; a refusal on all, since it may lie in what two
// of them say together.
func TestAnEditIsToldOnTheConfigMapsThatChanged(t *testing.T) {
	const head = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  "
	pools := func(address string) string { return head + "pools: [{name: p, addresses: [" + address + "]}]\n" }
	edits := []struct {
		what      string
		documents map[string]string
		want      told
	}{
		{"the first", map[string]string{"a": text("a"), "b": pools("192.0.2.0/28"), "c": head + "labels: {x: y}\n"}, told{"InventoryTakenUp a", "InventoryTakenUp b", "InventoryTakenUp c"}},
		{"one changes", map[string]string{"a": text("a"), "b": pools("192.0.2.0/27"), "c": head + "labels: {x: y}\n"}, told{"InventoryTakenUp b"}},
		{"one goes, another changes", map[string]string{"a": text("b"), "b": pools("192.0.2.0/27")}, told{"InventoryTakenUp a"}},
		{"one goes", map[string]string{"a": text("b")}, told{"InventoryTakenUp " + StatusName}},
		{"refused", map[string]string{"a": text("b"), "b": pools("nowhere")}, told{"InventoryRefused a", "InventoryRefused b"}},
		{"put right", map[string]string{"a": text("b"), "b": pools("192.0.2.0/27")}, told{"InventoryTakenUp a", "InventoryTakenUp b"}},
	}
	k := reconcilerOf(fake.NewClientset())
	for _, e := range edits {
		got, status := take(t, k, editOf(t, e.documents))
		if diff := cmp.Diff(e.want, got); diff != "" {
			t.Errorf("%s: %s; the status is %v", e.what, diff, status)
		}
	}
}

func TestCopiesThatArePassedOverAreNamed(t *testing.T) {
	k := reconcilerOf(fake.NewClientset())
	events, status := take(t, k, editOf(t, map[string]string{"dc1-2tg9k6h4fc": text("a"), "dc1-m8b7ck72fg": text("b")}))
	for _, want := range []string{"warning[P1006]", "configmap/kube-system/dc1-m8b7ck72fg", "dc1-2tg9k6h4fc is younger"} {
		if !strings.Contains(status[KeyProblems], want) {
			t.Errorf("the status says %q, want %s", status[KeyProblems], want)
		}
	}
	if !slices.Contains(events, "InventoryWarning dc1-2tg9k6h4fc") || status[KeyReady] != "true" {
		t.Errorf("the Events are %q, and the status %v", events, status)
	}
}

// TestLeaveToRemoveThatIsLeftBehindIsWarnedOf where the edit needs none of it.
func TestLeaveToRemoveThatIsLeftBehindIsWarnedOf(t *testing.T) {
	k := reconcilerOf(fake.NewClientset())
	leave := func(racks map[string]string, n int) string {
		e := proposed(layout(racks))
		e.Allowance.Removals = n
		_, status := take(t, k, e)
		if status[KeyReady] != "true" {
			t.Fatal(status)
		}
		return status[KeyProblems]
	}
	all := map[string]string{"r0": "a b c d e"}
	for _, s := range []struct {
		racks map[string]string
		leave int
		want  bool
	}{{all, 0, false}, {all, 3, true}, {map[string]string{"r0": "a b"}, 3, false}, {map[string]string{"r0": "a b"}, 3, true}, {map[string]string{"r0": "a b"}, 0, false}} {
		if got := leave(s.racks, s.leave); strings.Contains(got, "warning[P1005]") != s.want {
			t.Errorf("racks %v, %d may go: it is said %q", s.racks, s.leave, got)
		}
	}
}

// TestProblemsAreToldHoweverLongTheyAre: an API server takes 1 MiB, and no patch of more.
func TestProblemsAreToldHoweverLongTheyAre(t *testing.T) {
	client := fake.NewClientset()
	limited(client)
	client.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return len(a.(clienttesting.PatchAction).GetPatch()) > 1<<20, nil, apierrors.NewRequestEntityTooLargeError("patch")
	})
	k := reconcilerOf(client)
	take(t, k, proposed(text("a")))
	var many strings.Builder
	for range 300 {
		many.WriteString("  ✓" + strings.Repeat("ü", 5000) + ": 1\n")
	}
	for what, e := range map[string]Edit{
		"one that is long": proposed(text("a") + "  " + strings.Repeat("k", 900_000) + ": 1\n"),
		"many":             proposed(text("a") + many.String()),
		"of a carrier":     {Problems: inventory.Problems{{Severity: inventory.Error, Message: strings.Repeat("é", 1<<20)}}},
	} {
		events, status := take(t, k, e)
		if !k.life.Phase.Decided() || status[KeyReady] != "false" || len(status[KeyProblems]) > 100_000 || !utf8.ValidString(status[KeyProblems]) {
			t.Errorf("%s: it is told %v, ready %s with %d bytes of problems", what, k.life.Phase.Decided(), status[KeyReady], len(status[KeyProblems]))
		}
		if diff := cmp.Diff(told{"InventoryRefused " + StatusName}, events); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// TestWhatIsSpeltInAnotherWayIsNotWrittenOver: two versions that write the same inventory in
// different words would else take turns for ever.
func TestWhatIsSpeltInAnotherWayIsNotWrittenOver(t *testing.T) {
	client := fake.NewClientset()
	k := reconcilerOf(client)
	take(t, k, proposed(layout(map[string]string{"r0": "a", "r1": "b"})))
	other, err := k.store().load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	common := other.parts[AcceptedName].DeepCopy() // the other version's, as its next generation
	slice := part("dc1", sliceName("r0", 2), []byte(other.parts[sliceName("r0", 1)].Data[keyInventory]+"# in other words\n"), 2)
	slice.Immutable = new(true)
	common.Data[keyInventory] += "# in other words\n"
	common.Data[keyRacks] = "r0 2\nr1 1\n"
	common.Annotations[AnnotationGeneration] = "2"
	for _, cm := range []*v1.ConfigMap{slice, common} {
		if _, err := k.store().write(t.Context(), cm, other); err != nil {
			t.Fatal(err)
		}
	}
	for _, next := range []*Reconciler{k, reconcilerOf(client)} {
		next.stored.loaded = false
		take(t, next, proposed(layout(map[string]string{"r0": "a", "r1": "b"})))
		if next.stored.have.generation != 2 {
			t.Errorf("it is stored again, as generation %d", next.stored.have.generation)
		}
	}
	checkKept(t, k.stored.have)
	take(t, k, proposed(layout(map[string]string{"r0": "a", "r1": "b c"})))
	if k.stored.have.generation != 3 || len(place(k.stored.have.inventory)) != 3 {
		t.Errorf("an edit afterwards is generation %d: %v", k.stored.have.generation, place(k.stored.have.inventory))
	}
}
