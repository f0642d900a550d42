package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
)

// How an edit that gives sessions other terms is tried on one machine for each router: the
// slices of its racks are stored as ever, and what would be [AcceptedName] stands in a ConfigMap
// beside it, which counts for the Nodes that it names and for one generation. It is gone before
// and after. Agents that do not know it keep what is in force.
const (
	TrialName       = "plinth-trial"
	AnnotationTrial = "plinth.dev/trial"       // its ID, by which agents speak of it
	AnnotationUntil = "plinth.dev/trial-until" // when it is over (RFC 3339)

	keyNodes = "nodes" // "<node> <router> <router> ...", a line each
)

const (
	// TrialGrace is for how long after its end an agent goes on with terms that are tried: by then
	// the controller has taken the edit up or ended the trial, or is away.
	TrialGrace = 15 * time.Second

	trialPoll = time.Second // how often it is looked at what became of the sessions
)

// Agent is what is known of a machine's agent by its Node.
type Agent struct {
	Node  string
	Up    bool      // all of its sessions are, by the condition [lb.FabricReady]
	Says  lb.Report // the message of that condition
	Alone bool      // nobody else announces some VIP
	// Routers are those that it has sessions with; empty: not known.
	Routers []string
	// Endpoints are those of Services that are ready on it: their clients, and pods, may lose their way while it tries.
	Endpoints int
}

// How a machine's session with a router is.
const (
	isUp = iota
	mayBeUp
	isDown
)

// session is how its session with a router is, as far as the condition says: it does not name all
// that are down where they are many. With a router that it has none with, it is that of all others, whose place it takes.
func (a Agent) session(router string) int {
	down, more := a.Says.RoutersDown()
	of := []string{router}
	if len(a.Routers) > 0 && !slices.Contains(a.Routers, router) {
		of = a.Routers
	}
	notDown := slices.DeleteFunc(slices.Clone(of), func(r string) bool { return slices.Contains(down, r) })
	switch {
	case a.Up:
		return isUp
	case len(notDown) == 0:
		return isDown
	case more:
		return mayBeUp
	}
	return isUp
}

// trial is an edit whose terms of sessions are tried.
type trial struct {
	id      string
	until   time.Time
	routers map[string][]string // whose sessions a Node tries
}

var errOnTrial = errors.New("on trial")

// tryOut has an edit that is to be taken up wait while the terms of its sessions are tried. It returns
// what is to be in force; the error [errOnTrial] says that nobody knows yet.
func (r *Reconciler) tryOut(ctx context.Context, proposed Edit, next *inventory.Inventory, said verdict) (*inventory.Inventory, verdict, error) {
	inForce := r.have.inventory
	running := r.trial
	r.trial = nil
	if said.problems.Err() != nil || inForce == nil || next == inForce || r.spoilt != nil || r.Agents == nil || inForce.Safety.Trial() == 0 {
		return next, said, nil
	}
	changed := edit.RetermedBy(next, inForce)
	if len(changed) == 0 || slices.Contains(r.digests(proposed), changed.Digest()) {
		return next, said, nil
	}
	if content, digest, err := r.refusedBefore(ctx); err != nil {
		return inForce, said, err
	} else if content == proposed.content() && digest == changed.Digest() {
		return inForce, refusedTrial(said, inForce, digest, "the same edit was tried before"), nil
	}
	agents, err := r.Agents(ctx)
	if err != nil {
		return inForce, said, fmt.Errorf("the inventory waits, for it cannot be told how machines' sessions are: %w", err)
	}
	if running == nil {
		r.silent = nil
	}
	maps.DeleteFunc(agents, func(_ string, a Agent) bool { return slices.Contains(r.silent, a.Node) })
	t, err := r.beginTrial(ctx, next, changed, agents, running)
	switch {
	case err != nil:
		r.loaded = false
		return inForce, said, err
	case t == nil:
		return next, said, nil
	}
	failed, silent := t.failed(agents, changed)
	if over := !r.now().Before(t.until); over && len(silent) > 0 && len(r.silent) < mostSilent {
		r.silent, running = append(r.silent, silent...), nil
		maps.DeleteFunc(agents, func(_ string, a Agent) bool { return slices.Contains(r.silent, a.Node) })
		if again, err := r.beginTrial(ctx, next, changed, agents, nil); err != nil || again != nil {
			r.Log.Warn("who was to try new terms of sessions said nothing; others try them", "nodes", silent)
			r.trial = again
			return inForce, said, cmp.Or(err, errOnTrial)
		}
	}
	switch {
	case len(failed) == 0:
		r.Log.Info("sessions came up under their new terms", "nodes", slices.Sorted(maps.Keys(t.routers)))
		return next, said, nil
	case r.now().Before(t.until):
		r.trial = t
		return inForce, said, fmt.Errorf("%w until %s, on one machine for each router whose sessions get other terms: %s",
			errOnTrial, t.until.UTC().Format(time.RFC3339), strings.Join(t.lines(), ", "))
	}
	return inForce, refusedTrial(said, inForce, changed.Digest(), failed...), nil
}

func refusedTrial(said verdict, inForce *inventory.Inventory, digest string, failed ...string) verdict {
	said.losses = digest
	said.problems = append(inventory.Problems{edit.TrialFailedProblem(failed, inForce.Safety.Trial(), digest)}, said.problems...)
	return said
}

// mostSilent is how many machines may say nothing until an edit is refused for it: their agents may
// be dead, or older than this controller.
const mostSilent = 2

// beginTrial stores what is to be tried and by whom, or goes on with the trial of the same that
// runs, be it another leader's. nil: there is no agent that could try it, and so no session to
// lose.
func (r *Reconciler) beginTrial(ctx context.Context, next *inventory.Inventory, changed edit.Retermed, agents map[string]Agent, running *trial) (*trial, error) {
	parts := render(next, r.have)
	want := parts[len(parts)-1]
	want.Name = TrialName
	have := r.have.parts[TrialName]
	if have != nil && have.Data[keyInventory] == want.Data[keyInventory] && have.Data[keyRacks] == want.Data[keyRacks] && generationOf(have) == generationOf(want) {
		t := trialIn(have)
		if running != nil || r.now().Before(t.until) {
			return t, nil
		}
	}
	routers := trialNodes(changed, agents)
	if len(routers) == 0 {
		return nil, nil
	}
	for _, slice := range parts[:len(parts)-1] {
		written, err := r.store().write(ctx, slice, r.have)
		if err != nil {
			return nil, fmt.Errorf("storing the inventory that is to be tried: configmap %s: %w", slice.Name, err)
		}
		r.have.parts[slice.Name] = written
	}
	t := &trial{until: r.now().Add(r.have.inventory.Safety.Trial()), routers: routers}
	until := t.until.UTC().Format(time.RFC3339Nano)
	sum := sha256.Sum256([]byte(want.Data[keyInventory] + want.Data[keyRacks] + until))
	t.id = hex.EncodeToString(sum[:4])
	want.Data[keyNodes] = strings.Join(t.lines(), "\n") + "\n"
	want.Annotations[AnnotationTrial], want.Annotations[AnnotationUntil] = t.id, until
	delete(want.Data, keyPrevious)
	delete(want.Annotations, edit.AnnotationAllow)
	written, err := r.store().put(ctx, want, have)
	if err != nil {
		return nil, fmt.Errorf("storing the inventory that is to be tried: %w", err)
	}
	r.have.parts[TrialName] = written
	r.Log.Info("new terms of sessions are tried", "nodes", slices.Sorted(maps.Keys(routers)), "routers", changed.Routers(), "until", t.until)
	for _, carrier := range r.references(r.edit.Carriers) {
		r.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonOnTrial, cut("new terms of sessions are tried first: "+strings.Join(t.lines(), ", "), eventBytes))
	}
	return t, nil
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// digests are those of the losses that may happen.
func (r *Reconciler) digests(proposed Edit) []string {
	return append(slices.Clone(proposed.Allowance.Digests), edit.AllowedBy(r.have.allows())...)
}

// trialNodes chooses a machine for each router whose sessions change: one whose session with it is
// up, so that there is something to learn; that does not alone announce a VIP; that has no endpoint, or few; and that
// does not try another router's already, for it then keeps that one. Routers that no machine with an agent
// has a session with are left out.
func trialNodes(changed edit.Retermed, agents map[string]Agent) map[string][]string {
	chosen := map[string][]string{}
	for _, router := range changed.Routers() {
		var candidates []Agent
		for _, machine := range changed[router] {
			if a, ok := agents[machine]; ok {
				candidates = append(candidates, a)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		rank := func(a Agent) (n int) {
			if chosen[a.Node] != nil {
				n++
			}
			if a.Endpoints > 0 {
				n += 2
			}
			if a.Alone {
				n += 4
			}
			return n + 8*a.session(router)
		}
		best := slices.MinFunc(candidates, func(a, b Agent) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Endpoints, b.Endpoints), strings.Compare(a.Node, b.Node))
		})
		chosen[best.Node] = append(chosen[best.Node], router)
	}
	return chosen
}

// trialIn reads a trial.
func trialIn(cm *v1.ConfigMap) *trial {
	t := &trial{id: cm.Annotations[AnnotationTrial], routers: map[string][]string{}}
	t.until, _ = time.Parse(time.RFC3339Nano, cm.Annotations[AnnotationUntil]) // zero: it is over
	for line := range strings.Lines(cm.Data[keyNodes]) {
		if words := strings.Fields(line); len(words) > 1 {
			t.routers[words[0]] = words[1:]
		}
	}
	return t
}

// lines are who tries what, sorted.
func (t *trial) lines() (lines []string) {
	for _, node := range slices.Sorted(maps.Keys(t.routers)) {
		lines = append(lines, node+" "+strings.Join(t.routers[node], " "))
	}
	return lines
}

// failed says of each session that is tried and is not known to be up, or as all sessions with the
// router were, what its agent says; silent are the Nodes that said nothing.
func (t *trial) failed(agents map[string]Agent, changed edit.Retermed) (failed, silent []string) {
	says := map[string]lb.Report{}
	for _, a := range agents {
		says[a.Node] = a.Says
	}
	for _, node := range slices.Sorted(maps.Keys(t.routers)) {
		report := says[node].Trial
		for _, router := range t.routers[node] {
			switch state := report.Sessions[router]; {
			case report.ID != t.id:
				silent = append(silent, node)
				failed = append(failed, fmt.Sprintf("the agent of %s did not say how its session with %s is (an agent of an older version never does)", node, router))
			case state == lb.TrialDownBefore && slices.ContainsFunc(changed[router], func(m string) bool {
				a, known := agents[m]
				return known && a.Node != node && a.session(router) == isUp
			}):
				failed = append(failed, fmt.Sprintf("the session of %s with %s was down before, and others are up that it would tell nothing of", node, router))
			case state != lb.TrialUp && state != lb.TrialDownBefore:
				failed = append(failed, fmt.Sprintf("the session of %s with %s is %s (%s)", node, router, cmp.Or(state, lb.TrialDown), says[node]))
			}
		}
	}
	return failed, slices.Compact(silent)
}

// endTrial takes the trial away that is stored, unless it runs: for this leader, or for the one
// before where this one has not decided yet.
func (r *Reconciler) endTrial(ctx context.Context) error {
	stored := r.have.parts[TrialName]
	switch {
	case stored == nil || r.trial != nil:
		return nil
	case !r.decided && r.now().Before(trialIn(stored).until):
		return nil
	}
	if err := r.store().maps().Delete(ctx, TrialName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending a trial: deleting configmap %s: %w", TrialName, err)
	}
	delete(r.have.parts, TrialName)
	return nil
}
