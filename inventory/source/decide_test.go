package source

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
)

// judged is a reconciler with an inventory in force, that is told what each edit takes away.
type judged struct {
	*Reconciler
	t        *testing.T
	client   *fake.Clientset
	lost     []edit.LostVIP
	switched []edit.SwitchedVIP
	err      error
}

var oneVIP = []edit.LostVIP{{Addr: netip.MustParseAddr("203.0.113.77"), Services: []string{"default/web"}, Why: "no pool has it"}}

func newJudged(t *testing.T) *judged {
	j := &judged{t: t, client: fake.NewClientset()}
	j.restart()
	j.says(proposed(text("a")), "")
	return j
}

// restart has another leader go on.
func (j *judged) restart() {
	j.Reconciler = reconcilerOf(j.client)
	j.ClusterLosses = func(context.Context, *inventory.Inventory, *inventory.Inventory) (edit.Losses, error) {
		return edit.Losses{InUse: 3, Unreachable: j.lost, Switched: j.switched}, j.err
	}
}

// says takes an edit, and wants it taken up, or refused with a text.
func (j *judged) says(e Edit, want string) {
	j.t.Helper()
	j.take(e)
	j.stepSays(want)
}

func (j *judged) stepSays(want string) {
	j.t.Helper()
	if err := j.step(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	status, err := j.client.CoreV1().ConfigMaps(j.Namespace).Get(j.t.Context(), StatusName, metav1.GetOptions{})
	if err != nil {
		j.t.Fatal(err)
	}
	problems, ready := status.Data[KeyProblems], status.Data[KeyReady] == "true"
	if ready != (want == "") || !strings.Contains(problems, want) {
		j.t.Fatalf("ready is %v, problems: %s; wanted %q", ready, problems, want)
	}
	if (status.Data[KeyRefused] != "") != strings.Contains(problems, "plinth allow ") {
		j.t.Fatalf("refused is %q with problems: %s", status.Data[KeyRefused], problems)
	}
}

// digest is that which the status says.
func (j *judged) digest() string {
	before, err := j.reporter.lastRefusal(j.t.Context())
	if err != nil || before.Digest == "" {
		j.t.Fatalf("no digest is known: %v", err)
	}
	return before.Digest
}

// allow writes the digest on the ConfigMap that lists what was accepted, and the watch says so.
func (j *judged) allow() {
	j.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + edit.AnnotationAllow + `":"` + j.digest() + `"}}}`)
	if _, err := j.client.CoreV1().ConfigMaps(j.Namespace).Patch(j.t.Context(), AcceptedName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		j.t.Fatal(err)
	}
	j.stored.loaded = false
}

func TestAnEditThatTakesAVIPFromEverybodyIsRefused(t *testing.T) {
	j := newJudged(t)
	j.lost = oneVIP
	shrunk := proposed(text("b"))
	j.says(shrunk, "service default/web loses 203.0.113.77: no pool has it")
	if j.stored.have.generation != 1 {
		t.Errorf("generation %d is in force", j.stored.have.generation)
	}
	shrunk.Allowance.Digests = []string{j.digest()}
	j.says(shrunk, "")
	if j.stored.have.generation != 2 {
		t.Errorf("generation %d is in force though it was allowed", j.stored.have.generation)
	}
}

func TestAnEditThatSwitchesAVIPUnaskedIsRefused(t *testing.T) {
	j := newJudged(t)
	j.switched = []edit.SwitchedVIP{{Addr: netip.MustParseAddr("10.1.1.200"), Services: []string{"default/web"}, From: "BGP", To: "the link 10.1.1.0/24"}}
	e := proposed(text("b"))
	j.says(e, "10.1.1.200 of service default/web goes from BGP to the link 10.1.1.0/24")
	e.Allowance.Digests = []string{j.digest()}
	j.says(e, "")
}

func TestWhatIsInForceIsNotJudged(t *testing.T) {
	j := newJudged(t)
	j.err = errors.New("nobody knows")
	j.says(proposed(text("a")), "")
}

func TestWhatWasRefusedStaysRefusedUntilItChangesOrIsAllowed(t *testing.T) {
	j := newJudged(t)
	j.lost = oneVIP
	shrunk := proposed(text("b"))
	j.says(shrunk, "203.0.113.77")
	digest := j.digest()
	j.lost = nil // the machine that announced it died
	j.restart()
	j.says(shrunk, "P1009")
	if j.digest() != digest {
		t.Errorf("the digest was %s and is %s", digest, j.digest())
	}
	allowed := shrunk
	allowed.Allowance.Digests = []string{digest}
	other := proposed(text("c"))
	for what, next := range map[string]Edit{"it is allowed": allowed, "it changes": other} {
		t.Run(what, func(t *testing.T) {
			again := newJudged(t)
			again.lost = oneVIP
			again.says(shrunk, "203.0.113.77")
			again.lost = nil
			again.restart()
			again.says(next, "")
		})
	}
}

func TestLeaveByNumberLetsTheSameEditPass(t *testing.T) {
	j := newJudged(t)
	j.says(proposed(text("a", "b", "c")), "")
	retired := strings.ReplaceAll(text("a", "b", "c"), "{name: w", "{state: retired, name: w")
	all := proposed(retired)
	j.says(all, "P1001")
	all.Allowance.Removals = 3
	j.says(all, "")
}

func TestAMistakeInBetweenDoesNotForgetARefusal(t *testing.T) {
	j := newJudged(t)
	j.lost = oneVIP
	shrunk := proposed(text("b"))
	j.says(shrunk, "203.0.113.77")
	digest := j.digest()
	j.take(proposed("{"))
	if err := j.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.lost = nil
	j.restart()
	j.says(shrunk, "P1009")
	if j.digest() != digest {
		t.Errorf("the digest was %s and is %s", digest, j.digest())
	}
}

func TestALeaveStaysWhereItIs(t *testing.T) {
	j := newJudged(t)
	j.lost = oneVIP
	j.says(proposed(text("b")), "203.0.113.77")
	j.allow()
	j.lost = nil
	j.says(proposed(text("d")), "") // a harmless one, and a generation more
	j.lost = oneVIP
	j.says(proposed(text("b")), "")
}

func TestALeaveOnTheAcceptedConfigMapCounts(t *testing.T) {
	j := newJudged(t)
	j.lost = oneVIP
	j.says(proposed(text("b")), "203.0.113.77")
	j.allow()
	j.stepSays("")
}

func TestAnEditWaitsWhileNobodyCanTellWhatItTakesAway(t *testing.T) {
	j := newJudged(t)
	j.err = errors.New("no EndpointSlices are known yet")
	e := proposed(text("b"))
	j.take(e)
	if err := j.step(t.Context()); err == nil || !strings.Contains(err.Error(), "no EndpointSlices") || j.stored.have.generation != 1 || j.life.Phase.Decided() {
		t.Fatalf("%v, generation %d, decided: %v", err, j.stored.have.generation, j.life.Phase.Decided())
	}
	slice := sliceName("r0", 1)
	if err := j.client.CoreV1().ConfigMaps(j.Namespace).Delete(t.Context(), slice, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	j.stored.loaded = false
	if err := j.step(t.Context()); err == nil {
		t.Fatal("it does not wait any more")
	}
	if _, err := j.client.CoreV1().ConfigMaps(j.Namespace).Get(t.Context(), slice, metav1.GetOptions{}); err != nil {
		t.Errorf("what vanished is not stored again while an edit waits: %v", err)
	}
	j.err = nil
	j.stepSays("")
}

func TestAPausedInventoryTakesNothingUp(t *testing.T) {
	j := newJudged(t)
	paused := strings.Replace(text("b"), "spec:", "spec:\n  safety: {paused: true}", 1)
	j.says(proposed(paused), "P1010")
	if j.stored.have.generation != 1 {
		t.Errorf("generation %d is in force", j.stored.have.generation)
	}
	j.says(proposed(text("b")), "")
}
