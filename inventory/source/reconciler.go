package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// Recorder records Events on the ConfigMaps that people edit.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Reconciler decides which inventory is in force, and stores it. There should be one in a
// cluster. Of two, the second finds a conflict, or a generation that it did not write, and takes
// up what the first stored. It never writes the same edit again over another's generation, so two
// that disagree do not fight.
type Reconciler struct {
	Client    kubernetes.Interface
	Namespace string
	Source    Source
	Recorder  Recorder
	Log       *slog.Logger
	Metrics   *Metrics
	// Enforce takes an inventory that is in force from now on: that which was
	// accepted earlier, then each that is taken up.
	Enforce func(*inventory.Inventory)
	// ClusterLosses returns what after takes from the cluster that it has under before: VIPs in use, Nodes' machines,
	// ways between pods, addresses; an error where it cannot be told now. nil: nobody is asked.
	ClusterLosses func(ctx context.Context, before, after *inventory.Inventory) (edit.Losses, error)
	// Agents returns what is known of the agents of machines, by the machine's name, whose kubelet is
	// Ready. nil: new terms of sessions are not tried.
	Agents func(context.Context) (map[string]edit.Agent, error)
	// Lease is the name of the lease that the reconciler's process leads by; empty: it was not elected.
	Lease string
	// Program is that of the process, where it is called otherwise than Plinth's; see [Program].
	Program string
	// Overtaken ends a process whose installation runs on another lease by now; nil: nobody is told.
	Overtaken func()
	Now       func() time.Time // nil: [time.Now]

	have    accepted  // what is in the cluster, as far as this reconciler knows
	loaded  bool      // have is known
	edit    *Edit     // the last one; nil: none yet
	life    edit.Life // of edit
	status  status
	refused *edit.Refusal // what KeyRefused of the status says; nil: not read yet
	allowed string        // what the stored ConfigMap allowed when the edit was decided on
	last    result        // that was reported
	failed  bool          // to read or write what is stored, which was reported since
	newer   bool          // what is stored is not read: a newer version wrote it
	torn    bool          // what is stored cannot be read, when it was last looked at
	said    string        // the last error that was logged, and is not over
	trouble string        // why what is in force, or is to be, is not stored; empty: it is
	spoilt  error         // why have.inventory is but what can be read of what is stored; nil: it was accepted

	saves, tidies pace

	inForce atomic.Int64 // the generation of have, once it was put into force; or notWhole
}

// notWhole is no generation: what is in force is but what can be read of one.
const notWhole = -1

// How long after a failed write the next one is tried.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run loads what was accepted, then takes up what the source hands out, until
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
			r.loaded = false
		case <-retry.C:
		}
		if err := r.step(ctx); err != nil {
			r.reportError(ctx, err)
			if held := (*heldError)(nil); errors.As(err, &held) {
				retry.Reset(held.until.Sub(r.now()))
				continue
			}
			retry.Reset(pause)
			pause = min(2*pause, lastRetry)
			continue
		}
		pause = firstRetry
		r.reportRecovery()
		if r.life.Phase == edit.OnTrial {
			retry.Reset(trialPoll)
		}
	}
}

// latest puts an edit into a channel of one place, instead of an older one that
// nobody took yet.
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
		func(o *metav1.ListOptions) { o.LabelSelector = LabelAccepted })
	err := informer.SetTransform(withoutContent)
	if err != nil {
		return err
	}
	return follow(ctx, func() error {
		select {
		case stored <- struct{}{}:
		default:
		}
		return nil
	}, informer)
}

// withoutContent keeps of a ConfigMap that it is there, and in which version: only that it changed is of interest. What it is
// given stays whole, for a fake API server may hand out what it stores (Watch of client-go's ObjectTracker).
func withoutContent(obj any) (any, error) {
	cm, ok := obj.(*v1.ConfigMap)
	if !ok {
		return obj, nil
	}
	kept := cm.ObjectMeta
	kept.ManagedFields = nil
	return &v1.ConfigMap{ObjectMeta: kept}, nil
}

// step brings the cluster, and what is in force, in line with the edit; with
// what was in force before where there is no new edit or it is refused. Its
// error means that the cluster could not be read or written: the step is then
// tried again.
func (r *Reconciler) step(ctx context.Context) error { return r.attempt(ctx, true) }

// attempt is one attempt at a step. Where another leader stored something meanwhile, the
// first attempt reports nothing, and the second begins with what that one stored.
func (r *Reconciler) attempt(ctx context.Context, first bool) error {
	if err := r.reload(ctx); err != nil {
		if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
			return r.reportNewerFormat(ctx, newer)
		}
		return err
	}
	if err := r.reconsiderAllowed(); err != nil {
		return err
	}
	before, want := r.have.generation, r.have.inventory
	var proposed *Edit // that is decided on
	var waits error
	if r.edit != nil && !r.life.Phase.Decided() {
		proposed = new(r.edit.chosen(r.have.inventory))
		waits = r.decide(ctx, *proposed)
	}
	if r.life.Phase == edit.Allowed {
		want = r.life.Verdict.Next
	}
	if r.spoilt != nil && want == r.have.inventory {
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
	return errors.Join(r.conclude(ctx, proposed, waits, r.have.generation != before), r.tidy(ctx))
}

// reconsiderAllowed has an edit be decided on again that was refused for its losses, where somebody has allowed something since.
func (r *Reconciler) reconsiderAllowed() error {
	if r.life.Phase == edit.Refused && r.life.Verdict.Digest != "" && r.have.allows() != r.allowed {
		return r.life.Reconsider()
	}
	return nil
}

// conclude reports what an attempt came to. Its error is also why an edit waits, but for a trial, which ends by itself.
func (r *Reconciler) conclude(ctx context.Context, proposed *Edit, waits error, changed bool) error {
	switch {
	case errors.Is(waits, errOnTrial):
		return r.reportNotReady(ctx, waits, "", nil)
	case waits != nil:
		return errors.Join(waits, r.reportNotReady(ctx, waits, "", nil))
	case proposed != nil:
		return r.reportDecided(ctx, result{edit: *proposed, life: r.life, changed: changed})
	}
	return r.reportStored(ctx)
}

// notCommitted has the next attempt begin with what is stored, and decide again on an edit that this one has decided on: something
// else may be in force by then, and nothing is reported yet.
func (r *Reconciler) notCommitted(ctx context.Context, why error, first, decided bool) error {
	r.loaded = false
	if decided && r.life.Phase != edit.OnTrial {
		if err := r.life.Reconsider(); err != nil {
			return errors.Join(why, err)
		}
	}
	if first && overtaken(why) {
		return r.attempt(ctx, false)
	}
	return errors.Join(why, r.reportNotStored(ctx, why))
}

// reload reads what is stored, if it may be other than the reconciler knows. A
// generation that is not the reconciler's own is taken as it is; what vanished or
// was changed by hand will be stored again. What a newer version stored is left alone, and
// so is what is in force here. What cannot be read is in force as far as it can, where nothing else is known.
func (r *Reconciler) reload(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	mine, knows := r.have, r.have.inventory != nil && r.spoilt == nil
	found, err := r.store().load(ctx)
	if err != nil && !errors.Is(err, ErrUnreadable) {
		return err
	}
	if by := r.overtakenBy(found); by != nil {
		return by
	}
	r.have, r.loaded = found, true
	r.readable(err)
	switch {
	case err != nil && !knows:
		r.spoilt = err
		if !document.Equal(r.have.inventory, mine.inventory) {
			r.enforce("what can be read of the accepted inventory is in force")
		}
	case !knows || err == nil && found.inventory != nil && found.generation > mine.generation:
		r.spoilt, r.trouble = nil, ""
		r.enforce("the accepted inventory is in force")
		if r.life.Phase == edit.Accepted {
			return r.life.Supersede()
		}
	default:
		r.have.inventory, r.have.generation = mine.inventory, max(mine.generation, found.generation)
	}
	return nil
}

// waitForMend reports that what is stored cannot be read, and what became of the edit that might have mended it. Until
// one is taken up nothing is written: who follows what is stored has more than remains of it.
func (r *Reconciler) waitForMend(ctx context.Context, undecided bool, waits error) error {
	err := r.spoilt
	r.trouble, r.loaded = err.Error(), false
	if undecided && waits == nil {
		failed := r.reportDecided(ctx, result{edit: *r.edit, life: r.life})
		r.failed = true
		return errors.Join(err, failed)
	}
	if r.edit == nil || waits != nil {
		err = errors.Join(err, waits)
		return errors.Join(err, r.reportNotReady(ctx, err, "", nil))
	}
	return err
}

// overtaken reports whether another leader stored something meanwhile.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// commit makes an inventory the accepted one, and then puts it into force.
func (r *Reconciler) commit(ctx context.Context, want *inventory.Inventory, first bool) error {
	if want == nil {
		return nil
	}
	saved, err := r.save(ctx, want, first)
	if err != nil {
		return err
	}
	r.trouble, r.spoilt = "", nil
	r.Metrics.notStored.Set(0)
	r.Metrics.unreadable.Set(0)
	changed := want != r.have.inventory && saved.generation != r.have.generation
	if !changed {
		saved.inventory = r.have.inventory
	}
	r.have = saved
	r.inForce.Store(saved.generation)
	r.Metrics.generation.Set(float64(saved.generation))
	if changed {
		r.enforce("a new inventory is in force")
	}
	return nil
}

// save stores an inventory, unless all of it is there, or it is too early to store the same again.
func (r *Reconciler) save(ctx context.Context, want *inventory.Inventory, first bool) (accepted, error) {
	parts := render(want, r.have)
	if !slices.ContainsFunc(parts, r.have.lacks) {
		return r.have.with(want), nil
	}
	sum := sha256.Sum256(document.FormatAccepted(want))
	content, now := hex.EncodeToString(sum[:]), r.now()
	if err := r.saves.hold(content, now); err != nil {
		return r.have, err
	}
	saved, err := r.store().save(ctx, want, r.have)
	if !first || !overtaken(err) { // else what the other one stored is read first
		r.saves.note(content, now, err)
	}
	return saved, err
}

// tidyStore does it in the store, unless it is too early to do the same again.
func (r *Reconciler) tidyStore(ctx context.Context) error {
	if copies, gone := r.have.leftOver(); len(copies) == 0 && len(gone) == 0 {
		return nil
	}
	content, now := strconv.FormatInt(r.have.generation, 10), r.now()
	if err := r.tidies.hold(content, now); err != nil {
		return err
	}
	err := r.store().tidy(ctx, r.have)
	r.tidies.note(content, now, err)
	return err
}

// tidy does what the last commit left to do.
func (r *Reconciler) tidy(ctx context.Context) error {
	if err := errors.Join(r.endTrial(ctx), r.tidyStore(ctx)); err != nil {
		r.loaded = false
		return fmt.Errorf("tidying up after generation %d of the inventory: %w", r.have.generation, err)
	}
	return nil
}

func (r *Reconciler) enforce(why string) {
	inv, generation := r.have.inventory, r.have.generation
	if inv == nil {
		generation = 0
	}
	r.Metrics.generation.Set(float64(generation))
	if r.spoilt != nil {
		generation = notWhole
	}
	r.inForce.Store(generation)
	if inv == nil {
		return
	}
	r.Log.Info(why, "inventory", inv.Name, "generation", r.have.generation, "machines", inv.Size())
	r.Enforce(inv)
}

// Current says why what is in force here may not be what is in force in the
// cluster; nil where the cluster was just seen to have the same generation. It
// is for those who are about to do what cannot be undone.
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

func (r *Reconciler) store() acceptedStore {
	return acceptedStore{r.Client, r.Namespace, r.Lease, r.Program}
}

// reportError counts that the cluster could not be read or written, and logs it once however often it is tried
// again.
func (r *Reconciler) reportError(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	if !errors.As(err, new(*heldError)) {
		r.Metrics.failed.Inc()
	}
	if r.said == err.Error() {
		return
	}
	r.said = err.Error()
	r.Log.Error("cannot keep the inventory; will try again, after pauses of up to a minute", "err", err)
}

// reportRecovery logs that an error is over.
func (r *Reconciler) reportRecovery() {
	if r.said != "" {
		r.Log.Info("the inventory is kept again", "generation", r.have.generation)
	}
	r.said = ""
}
