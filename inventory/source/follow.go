package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Followed is the accepted inventory as the machines of one rack need it: the common part, and that
// rack.
type Followed struct {
	Inventory *inventory.Inventory
	Trial     *Trial // nil: this Node tries nothing
}

// Trial is an inventory for this Node alone, which tries new terms of sessions with some routers. It
// reports their outcome as a [lb.TrialReport].
type Trial struct {
	Inventory *inventory.Inventory // what is in force but for those sessions
	ID        string
	Routers   []string  // whose sessions are tried
	Until     time.Time // when the controller ends it; [TrialGrace] later it counts no more
}

// Follow calls set with the accepted inventory as a Node of one rack needs it, once it is there and
// after each change, until ctx ends. It watches the ConfigMap that lists the slices, and reads the
// slice that it lists, so that a rack never sees its new peers before the routers that they name; and the one
// beside it with the trial. While there is none of the first it hands out nothing. One that is
// there and cannot be read is an error and no inventory: the inventory that was handed out before stays in
// force. A trial that cannot be read is none.
func Follow(ctx context.Context, client kubernetes.Interface, namespace, rack, node string, set func(Followed, error)) error {
	common, tried := informerOf(client, namespace, AcceptedName), informerOf(client, namespace, TrialName)
	f := &follower{store: acceptedStore{client: client, namespace: namespace}, rack: rack, node: node, set: set}
	return follow(ctx, func() error {
		return f.look(ctx, inStore(common, namespace, AcceptedName), inStore(tried, namespace, TrialName))
	}, common, tried)
}

// follower hands out the inventory that a Node's rack needs.
type follower struct {
	store      acceptedStore
	rack, node string
	set        func(Followed, error)
	last       string // content that was handed out
}

// look hands out the inventory in the ConfigMaps, where it has changed.
func (f *follower) look(ctx context.Context, common, tried *v1.ConfigMap) error {
	if common == nil {
		return nil
	}
	docs, err := f.store.loadRack(ctx, common, f.rack)
	if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
		f.last = "" // handed out again once it can be read
		f.set(Followed{}, err)
		return nil
	}
	if err != nil || len(docs) == 0 {
		return err
	}
	trial, err := f.trial(ctx, common, tried)
	if err != nil {
		return err
	}
	content := string(docs[0].Data) + string(docs[1].Data)
	if trial != nil {
		content += trial.ID
	}
	if content == f.last {
		return nil
	}
	f.last = content
	inv, err := parseAccepted(docs)
	if err := errors.Join(err, checkText(common)); err != nil {
		f.set(Followed{}, fmt.Errorf("the accepted inventory: %w", err))
		return nil
	}
	if trial != nil {
		trial.Inventory = inv.Trying(trial.Inventory, trial.Routers)
	}
	f.set(Followed{inv, trial}, nil)
	return nil
}

// trial returns the trial of this Node beside the inventory in force; nil: there is none that it can read. Its
// error means that the cluster could not be read.
func (f *follower) trial(ctx context.Context, common, tried *v1.ConfigMap) (*Trial, error) {
	if tried == nil || generationOf(tried) <= generationOf(common) {
		return nil, nil // it was taken up, or is of an edit that another one has overtaken
	}
	trial := trialIn(tried)
	routers := trial.Routers[f.node]
	if len(routers) == 0 {
		return nil, nil
	}
	docs, err := f.store.loadRack(ctx, tried, f.rack)
	if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
		return nil, nil
	}
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	inv, problems := document.ParseAccepted(docs...)
	if problems.Err() != nil {
		return nil, nil
	}
	return &Trial{inv, trial.ID, routers, trial.Until}, nil
}
