package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/wake"
)

// Reconciler decides on the inventory in force, and stores it. There should be one in a
// cluster. Of two, the second finds a conflict, or a generation that it did not write, and adopts
// the inventory that the first stored. It never writes the same edit again over another's generation, so two
// that disagree do not fight.
type Reconciler struct {
	Config

	stored   cachedStore
	reporter reporter
	edit     *Edit        // the last one; nil: none yet
	life     edit.Life    // of edit
	allowed  string       // what the stored ConfigMap allowed when the edit was decided on
	inForce  atomic.Int64 // the generation that is stored, once it was put into force; or notWhole
}

// NewReconciler returns a reconciler that has read nothing yet.
func NewReconciler(config Config) *Reconciler {
	r := &Reconciler{Config: config}
	r.stored.config, r.reporter.config = &r.Config, &r.Config
	return r
}

// notWhole is no generation: the inventory in force is only the readable part of one.
const notWhole = -1

// trialPoll is the interval at which the reports of a trial's Nodes are read.
const trialPoll = time.Second

// errOnTrial means that an edit is pending on the reports of the Nodes that try it.
var errOnTrial = errors.New("on trial")

// Run loads the accepted inventory, then reconciles it with the edits of the source, until
// ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	edits, stored := make(chan Edit, 1), make(chan struct{}, 1)
	failed := make(chan error, 3)
	go func() { failed <- r.Source.Run(ctx, func(e Edit) { latest(edits, e) }) }()
	go func() { failed <- r.watchStored(ctx, stored) }()
	go func() { failed <- r.keepStatus(ctx) }()
	pause := firstRetry
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if err != nil {
				return err
			}
			continue
		case proposed := <-edits:
			if r.edit == nil || !r.edit.same(proposed) {
				r.take(proposed)
			}
		case <-stored:
			r.stored.loaded = false
		case <-retry.C:
		}
		if err := r.step(ctx); err != nil {
			r.reporter.failing(ctx, err)
			if held := (*heldError)(nil); errors.As(err, &held) {
				retry.Reset(held.until.Sub(r.now()))
				continue
			}
			retry.Reset(pause)
			pause = min(2*pause, lastRetry)
			continue
		}
		pause = firstRetry
		r.reporter.recovered(r.stored.have.generation)
		if r.life.Phase == edit.OnTrial {
			retry.Reset(trialPoll)
		}
	}
}

// latest puts an edit into a channel of one place, instead of an older one that
// was not taken yet.
func latest(edits chan Edit, e Edit) {
	select {
	case <-edits:
	default:
	}
	edits <- e
}

// watchStored sends when the accepted ConfigMaps may not be those that the reconciler knows.
func (r *Reconciler) watchStored(ctx context.Context, stored chan<- struct{}) error {
	informer := coreinformers.NewFilteredConfigMapInformer(r.Client, r.Namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = selectAccepted })
	err := informer.SetTransform(withoutContent)
	if err != nil {
		return err
	}
	return follow(ctx, func() error {
		wake.Up(stored)
		return nil
	}, informer)
}

// take has an edit take the place of the last one. A trial goes on: the edit may give sessions the same terms.
func (r *Reconciler) take(proposed Edit) {
	r.edit = &proposed
	if r.life.Phase != edit.OnTrial {
		r.life = edit.NewLife()
	}
}

// step reconciles the cluster, and the inventory in force, with the edit; with
// the one that was in force before where there is no new edit or it is refused. Its
// error means that the cluster could not be read or written: the step is then
// tried again.
func (r *Reconciler) step(ctx context.Context) error { return r.attempt(ctx, true) }

// attempt is one attempt at a step. Where another leader stored something meanwhile, the
// first attempt reports nothing, and the second begins with the state that it stored.
func (r *Reconciler) attempt(ctx context.Context, first bool) error {
	if err := r.reload(ctx); err != nil {
		if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
			return r.reporter.newerFormat(ctx, r.snapshot(), newer)
		}
		return err
	}
	if err := r.reconsiderAllowed(); err != nil {
		return err
	}
	before, want := r.stored.have.generation, r.stored.have.inventory
	var proposed *Edit // that is decided on
	var waits error
	if r.edit != nil && !r.life.Phase.Decided() {
		proposed = new(r.edit.chosen(r.stored.have.inventory))
		waits = r.decide(ctx, *proposed)
	}
	if r.life.Phase == edit.Allowed {
		want = r.life.Verdict.Next
	}
	if r.stored.spoilt != nil && want == r.stored.have.inventory {
		return r.waitForMend(ctx, proposed != nil, waits)
	}
	if err := r.commit(ctx, want, first); err != nil {
		return r.notCommitted(ctx, err, first, proposed != nil)
	}
	if r.life.Phase == edit.Allowed {
		if err := r.life.Accept(); err != nil {
			return err
		}
	}
	return errors.Join(r.conclude(ctx, proposed, waits, r.stored.have.generation != before), r.tidy(ctx))
}

// snapshot returns the current state for a report.
func (r *Reconciler) snapshot() snapshot {
	have := r.stored.have
	return snapshot{edit: r.edit, life: r.life, inForce: have.inventory != nil, generation: have.generation, trouble: r.stored.trouble}
}

// reload reads the stored inventory, if it may differ from the cache. What a newer version stored is left alone, and
// so is the inventory in force here.
func (r *Reconciler) reload(ctx context.Context) error {
	if r.stored.loaded {
		return nil
	}
	found, err := r.store().load(ctx)
	if err != nil && !errors.Is(err, ErrUnreadable) {
		return err
	}
	if other := otherLease(found.parts[AcceptedName], r.Lease); other != "" {
		return r.overtakenBy(other)
	}
	r.reporter.readable(found.generation, err)
	switch r.stored.observe(found, err) {
	case remainsOnly:
		r.enforce("put the readable part of the accepted inventory into force")
	case takenUp:
		r.enforce("put the accepted inventory into force")
		if r.life.Phase == edit.Accepted {
			return r.life.Supersede()
		}
	case unchanged:
	}
	return nil
}

// overtakenBy ends the process, whose installation runs on another lease.
func (r *Reconciler) overtakenBy(lease string) error {
	r.Log.Error("ending this controller: its installation runs on another lease", "lease", r.Lease, "other", lease)
	if r.Overtaken != nil {
		r.Overtaken()
	}
	return fmt.Errorf("the installation runs on lease %s, and this controller leads by lease %s", lease, r.Lease)
}

// reconsiderAllowed has an edit that was refused for its losses decided on again, where another allowance was written since.
func (r *Reconciler) reconsiderAllowed() error {
	if r.life.Phase == edit.Refused && r.life.Verdict.Digest != "" && r.stored.have.allows() != r.allowed {
		return r.life.Reconsider()
	}
	return nil
}

// decide decides on the edit. An error means that it is pending, [errOnTrial] on agents' reports; the inventory in force stays.
func (r *Reconciler) decide(ctx context.Context, proposed Edit) error {
	verdict, err := r.verdict(ctx, proposed)
	if err != nil {
		return errors.Join(err, r.life.Reconsider())
	}
	if err := r.life.Decide(verdict); err != nil {
		return err
	}
	switch {
	case len(verdict.CameUp) > 0:
		r.Log.Info("found the sessions on trial up under their new terms", "nodes", verdict.CameUp)
	case verdict.Phase == edit.OnTrial:
		return fmt.Errorf("%w until %s, on one machine for each router whose sessions get other terms: %s",
			errOnTrial, verdict.Trial.Until.UTC().Format(time.RFC3339), strings.Join(verdict.Trial.Lines(), ", "))
	}
	return nil
}

// verdict returns the decision on an edit, once a trial that it begins is stored.
func (r *Reconciler) verdict(ctx context.Context, proposed Edit) (edit.Verdict, error) {
	known, err := r.stored.known(ctx)
	if err != nil {
		return edit.Verdict{}, err
	}
	r.allowed = r.stored.have.allows()
	verdict, err := edit.Decide(proposed.proposal(r.allowed), r.stored.have.inventory, r.evidence(ctx, known))
	if err != nil || verdict.Phase != edit.OnTrial || verdict.Trial.ID != "" {
		return verdict, err
	}
	if verdict.Trial, err = r.stored.beginTrial(ctx, verdict.Next, verdict.Trial); err != nil {
		r.stored.loaded = false
		return verdict, err
	}
	r.reporter.trialBegun(r.edit.Carriers, verdict.Trial)
	before := func(node string) bool { return slices.Contains(r.life.Verdict.Silent, node) }
	if silent := slices.DeleteFunc(slices.Clone(verdict.Silent), before); len(silent) > 0 {
		r.Log.Warn("chose other machines for the trial: the agents that were to try the terms reported nothing", "nodes", silent)
	}
	return verdict, nil
}

// evidence returns the facts that an edit is decided by besides the inventory in force.
func (r *Reconciler) evidence(ctx context.Context, known *inventory.Inventory) edit.Evidence {
	evidence := edit.Evidence{
		Known: known, Whole: r.stored.spoilt == nil, Silent: r.life.Verdict.Silent, Now: r.now(),
		Storable: func(next *inventory.Inventory) inventory.Problems { return notStorable(next, r.stored.have) },
		Refusal:  func() (edit.Refusal, error) { return r.reporter.lastRefusal(ctx) },
		Running: func(next *inventory.Inventory) (t edit.Trial, mine, found bool) {
			t, found = r.stored.trialOf(next)
			return t, r.life.Phase == edit.OnTrial, found
		},
	}
	if r.ClusterLosses != nil {
		evidence.Losses = func(next *inventory.Inventory) (edit.Losses, error) {
			return r.ClusterLosses(ctx, r.stored.have.inventory, next)
		}
	}
	if r.Agents != nil {
		evidence.Agents = func() (map[string]edit.Agent, error) { return r.Agents(ctx) }
	}
	return evidence
}

// waitForMend reports that the stored inventory cannot be read, and the outcome of the edit that might have mended it. Until
// one is accepted nothing is written: agents that follow the store have more than remains of it.
func (r *Reconciler) waitForMend(ctx context.Context, undecided bool, waits error) error {
	err := r.stored.spoilt
	r.stored.notStored(err)
	switch {
	case undecided && waits == nil:
		failed := r.reportDecided(ctx, result{edit: *r.edit, life: r.life})
		r.reporter.failed = true
		return errors.Join(err, failed)
	case r.edit == nil || waits != nil:
		err = errors.Join(err, waits)
		return errors.Join(err, r.reporter.waiting(ctx, r.snapshot(), err))
	}
	return err
}

// commit makes an inventory the accepted one, and then puts it into force.
func (r *Reconciler) commit(ctx context.Context, want *inventory.Inventory, first bool) error {
	if want == nil {
		return nil
	}
	changed, err := r.stored.save(ctx, want, first)
	if err != nil {
		return err
	}
	r.Metrics.notStored.Set(0)
	r.Metrics.unreadable.Set(0)
	r.Metrics.generation.Set(float64(r.stored.have.generation))
	r.inForce.Store(r.stored.have.generation)
	if changed {
		r.enforce("put a new inventory into force")
	}
	return nil
}

// notCommitted has the next attempt reload the store, and decide again on an edit that this one has decided on: another
// inventory may be in force by then, and nothing is reported yet.
func (r *Reconciler) notCommitted(ctx context.Context, why error, first, decided bool) error {
	r.stored.loaded = false
	if decided && r.life.Phase != edit.OnTrial {
		if err := r.life.Reconsider(); err != nil {
			return errors.Join(why, err)
		}
	}
	if first && overtaken(why) {
		return r.attempt(ctx, false)
	}
	if ctx.Err() != nil {
		return why
	}
	r.stored.notStored(why)
	return errors.Join(why, r.reporter.notStored(ctx, r.snapshot(), why))
}

// conclude reports the outcome of an attempt. Its error includes the reason why an edit is pending, but for a trial, which ends by itself.
func (r *Reconciler) conclude(ctx context.Context, proposed *Edit, waits error, changed bool) error {
	switch {
	case errors.Is(waits, errOnTrial):
		return r.reporter.waiting(ctx, r.snapshot(), waits)
	case waits != nil:
		return errors.Join(waits, r.reporter.waiting(ctx, r.snapshot(), waits))
	case proposed != nil:
		return r.reportDecided(ctx, result{edit: *proposed, life: r.life, changed: changed})
	}
	return r.reporter.stored(ctx, r.snapshot())
}

// reportDecided reports the outcome of an edit, which is decided on again where that cannot be written.
func (r *Reconciler) reportDecided(ctx context.Context, res result) error {
	err := r.reporter.decided(ctx, r.snapshot(), res)
	if err != nil {
		err = errors.Join(err, r.life.Reconsider())
	}
	return err
}

// tidy ends a trial that is over and completes the last commit.
func (r *Reconciler) tidy(ctx context.Context) error {
	if err := errors.Join(r.endTrial(ctx), r.stored.tidy(ctx)); err != nil {
		r.stored.loaded = false
		return fmt.Errorf("tidying up after generation %d of the inventory: %w", r.stored.have.generation, err)
	}
	return nil
}

// endTrial deletes the stored trial, unless it runs: for this leader, or for the one
// before where this one has not decided yet.
func (r *Reconciler) endTrial(ctx context.Context) error {
	t, found := r.stored.trial()
	if !found || r.life.Phase == edit.OnTrial || !r.life.Phase.Decided() && r.now().Before(t.Until) {
		return nil
	}
	return r.stored.endTrial(ctx)
}

// enforce puts the stored inventory into force.
func (r *Reconciler) enforce(why string) {
	inv, generation := r.stored.have.inventory, r.stored.have.generation
	if inv == nil {
		generation = 0
	}
	r.Metrics.generation.Set(float64(generation))
	if r.stored.spoilt != nil {
		generation = notWhole
	}
	r.inForce.Store(generation)
	if inv == nil {
		return
	}
	r.Log.Info(why, "inventory", inv.Name, "generation", r.stored.have.generation, "machines", inv.Size())
	r.Enforce(inv)
}

// Current returns an error where the inventory in force here may not be the one in force in the
// cluster; nil where the cluster was just seen to have the same generation. It
// is for callers about to do something that cannot be undone.
func (r *Reconciler) Current(ctx context.Context) error {
	stored, err := r.store().generation(ctx)
	if err != nil {
		return err
	}
	here := r.inForce.Load()
	if here == notWhole {
		return errors.New("what is in force here is but what can be read of what is stored")
	}
	if here != stored {
		return fmt.Errorf("generation %d of the inventory is in force here, generation %d is stored", here, stored)
	}
	return nil
}
