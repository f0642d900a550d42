package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
)

// Recorder records Events on the ConfigMaps that people edit.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Keeper decides which inventory is in force. There should be one in a cluster;
// should there be two for a moment, the one that comes second finds a conflict
// or a generation it did not write, and takes up what the other stored. It never
// writes the same edit again over another's generation, so two that disagree do
// not fight.
type Keeper struct {
	Client    kubernetes.Interface
	Namespace string
	Source    Source
	Recorder  Recorder
	Log       *slog.Logger
	Metrics   *Metrics
	// Enforce takes an inventory that is in force from now on: that which was
	// accepted earlier, then each that is taken up.
	Enforce func(*inventory.Inventory)

	have   accepted // what is in the cluster, as far as this keeper knows
	loaded bool     // have is known
	edit   *Edit    // the last one; nil: none yet
	judged bool     // edit was taken up or refused
	status status
	last   verdict // that was told
	failed bool    // the last write, or to read what is stored, which was told since
	newer  string  // why what is stored is not read: a newer version wrote it; empty: it is

	inForce atomic.Int64 // the generation of have, once it was put into force
}

// How long after a failed write the next one is tried.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run loads what was accepted, then takes up what the source hands out, until
// ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	edits, stored := make(chan Edit, 1), make(chan struct{}, 1)
	failed := make(chan error, 2)
	go func() { failed <- k.Source.Run(ctx, func(e Edit) { latest(edits, e) }) }()
	go func() { failed <- k.watchStored(ctx, stored) }()
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
		case edit := <-edits:
			if k.edit == nil || !k.edit.same(edit) {
				k.edit, k.judged = &edit, false
			}
		case <-stored:
			k.loaded = false
		case <-retry.C:
		}
		if err := k.step(ctx); err != nil {
			k.complain(ctx, err)
			retry.Reset(pause)
			pause = min(2*pause, lastRetry)
		} else {
			pause = firstRetry
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

// watchStored tells when the accepted ConfigMaps are not those that the keeper knows.
func (k *Keeper) watchStored(ctx context.Context, stored chan<- struct{}) error {
	informer := coreinformers.NewFilteredConfigMapInformer(k.Client, k.Namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = LabelAccepted })
	err := informer.SetTransform(func(obj any) (any, error) { // only that they changed is of interest
		if cm, ok := obj.(*v1.ConfigMap); ok {
			cm.Data, cm.BinaryData, cm.ManagedFields = nil, nil, nil
		}
		return obj, nil
	})
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

// step brings the cluster, and what is in force, in line with the edit; with
// what was in force before where there is no new edit or it is refused. Its
// error means that the cluster could not be read or written: the step is then
// tried again.
func (k *Keeper) step(ctx context.Context) error { return k.attempt(ctx, true) }

// attempt is one attempt at a step. Where another leader stored something meanwhile, the
// first attempt says nothing, and the second begins with what that one stored.
func (k *Keeper) attempt(ctx context.Context, first bool) error {
	if err := k.reload(ctx); err != nil {
		if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
			return k.tellNewer(ctx, newer)
		}
		if errors.Is(err, errUnreadable) {
			err = errors.Join(err, k.tellUnreadable(ctx, err))
		}
		return err
	}
	want, before := k.have.inventory, k.have.generation
	var problems inventory.Problems
	judge := k.edit != nil && !k.judged
	if judge {
		var next *inventory.Inventory
		if next, problems = admit(*k.edit, k.have.inventory); next != nil {
			problems = append(problems, tooLarge(next, k.have)...)
		}
		if next != nil && problems.Err() == nil {
			want = next
		}
	}
	if err := k.commit(ctx, want); err != nil {
		k.loaded = false
		if first && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
			return k.attempt(ctx, false)
		}
		return errors.Join(err, k.tellNotStored(ctx, err))
	}
	var err error
	if judge {
		err = k.tell(ctx, verdict{edit: *k.edit, problems: problems, changed: k.have.generation != before})
		k.judged = err == nil
	} else {
		err = k.tellStored(ctx)
	}
	return errors.Join(err, k.tidy(ctx))
}

// reload reads what is stored, if it may be other than the keeper knows. A
// generation that is not the keeper's own is taken as it is; what vanished or
// was changed by hand will be stored again. What a newer version stored is left alone, and
// so is what is in force here.
func (k *Keeper) reload(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	mine := k.have
	found, err := k.store().load(ctx)
	if err != nil && (mine.inventory == nil || !errors.Is(err, errUnreadable)) {
		return err
	}
	k.have, k.loaded = found, true
	k.readable()
	if mine.inventory == nil || found.inventory != nil && found.generation > mine.generation {
		k.put("the accepted inventory is in force")
		return nil
	}
	k.have.inventory, k.have.generation = mine.inventory, max(mine.generation, found.generation)
	return nil
}

// commit makes an inventory the accepted one, and then puts it into force.
func (k *Keeper) commit(ctx context.Context, want *inventory.Inventory) error {
	if want == nil {
		return nil
	}
	saved, err := k.store().save(ctx, want, k.have)
	if err != nil {
		return err
	}
	changed := want != k.have.inventory && saved.generation != k.have.generation
	if !changed {
		saved.inventory = k.have.inventory
	}
	k.have = saved
	k.inForce.Store(saved.generation)
	k.Metrics.generation.Set(float64(saved.generation))
	if changed {
		k.put("a new inventory is in force")
	}
	return nil
}

// tidy has nothing be stored that nobody reads any more.
func (k *Keeper) tidy(ctx context.Context) error {
	err := k.store().tidy(ctx, k.have)
	if err != nil {
		k.loaded = false
		return fmt.Errorf("tidying up after generation %d of the inventory: %w", k.have.generation, err)
	}
	return nil
}

// admit judges an edit. The inventory is nil if and only if the problems have
// an error.
func admit(edit Edit, inForce *inventory.Inventory) (*inventory.Inventory, inventory.Problems) {
	if edit.Problems.Err() != nil {
		return nil, edit.Problems
	}
	next, problems := inventory.Parse(edit.Documents...)
	problems = append(problems, edit.Problems...)
	if next == nil {
		return nil, problems
	}
	if wrong := mislabelled(edit.Carriers, next.Name); len(wrong) > 0 {
		return nil, append(wrong, problems...)
	}
	admitted, more := inventory.Admit(next, inForce, edit.AllowRemovals)
	if problems = append(problems, more...); edit.AllowRemovals > 0 {
		if without, _ := inventory.Admit(next, inForce, 0); without != nil {
			problems = append(problems, leaveLeftBehind(edit.AllowRemovals))
		}
	}
	return admitted, problems
}

func (k *Keeper) put(why string) {
	k.Metrics.generation.Set(float64(k.have.generation))
	k.inForce.Store(k.have.generation)
	inv := k.have.inventory
	if inv == nil {
		return
	}
	k.Log.Info(why, "inventory", inv.Name, "generation", k.have.generation, "machines", inv.Size())
	k.Enforce(inv)
}

// Current says why what is in force here may not be what is in force in the
// cluster; nil where the cluster was just seen to have the same generation. It
// is for those who are about to do what cannot be undone.
func (k *Keeper) Current(ctx context.Context) error {
	stored, err := k.store().generation(ctx)
	if err != nil {
		return err
	}
	if here := k.inForce.Load(); here != stored {
		return fmt.Errorf("generation %d of the inventory is in force here, generation %d is stored", here, stored)
	}
	return nil
}

func (k *Keeper) store() acceptedStore { return acceptedStore{k.Client, k.Namespace} }

// complain says that the cluster could not be read or written.
func (k *Keeper) complain(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	k.Metrics.failed.Inc()
	k.Log.Error("cannot keep the inventory; will try again", "err", err)
}
