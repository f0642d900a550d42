package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// cachedStore is the store of the accepted inventory with a cache of its content, as far as this process knows it.
type cachedStore struct {
	config  *Config
	have    accepted
	loaded  bool   // have is known
	spoilt  error  // why have.inventory is but what can be read of what is stored; nil: it was accepted
	trouble string // why what is in force, or is to be, is not stored; empty: it is

	saves, tidies pace
}

// change is the effect of an observed store on the inventory in force.
type change int

const (
	unchanged   change = iota
	remainsOnly        // the readable part of an inventory comes into force
	takenUp            // a generation comes into force that was accepted
)

// observe updates the cache with the state that was found in the store; the error unreadable means that it cannot be read. A
// generation that is not this process's own is taken as it is; ConfigMaps that vanished or
// were changed by hand will be stored again. Of an unreadable state the readable part counts, where nothing else is known.
func (c *cachedStore) observe(found accepted, unreadable error) change {
	mine, knows := c.have, c.have.inventory != nil && c.spoilt == nil
	c.have, c.loaded = found, true
	switch {
	case unreadable != nil && !knows:
		c.spoilt = unreadable
		if document.Equal(found.inventory, mine.inventory) {
			return unchanged
		}
		return remainsOnly
	case !knows || unreadable == nil && found.inventory != nil && found.generation > mine.generation:
		c.spoilt, c.trouble = nil, ""
		return takenUp
	}
	c.have.inventory, c.have.generation = mine.inventory, max(mine.generation, found.generation)
	return unchanged
}

// save stores an inventory, and reports whether it is another than before.
func (c *cachedStore) save(ctx context.Context, want *inventory.Inventory, first bool) (changed bool, err error) {
	saved, err := c.write(ctx, want, first)
	if err != nil {
		return false, err
	}
	changed = want != c.have.inventory && saved.generation != c.have.generation
	if !changed {
		saved.inventory = c.have.inventory
	}
	c.have, c.trouble, c.spoilt = saved, "", nil
	return changed, nil
}

// write stores an inventory, unless all of it is there, or it is too early to store the same again. Where another leader stored
// something meanwhile, the first attempt is not noted: the state that it stored is read first.
func (c *cachedStore) write(ctx context.Context, want *inventory.Inventory, first bool) (accepted, error) {
	if !slices.ContainsFunc(render(want, c.have), c.have.lacks) {
		return c.have.with(want), nil
	}
	sum := sha256.Sum256(document.FormatAccepted(want))
	content, now := hex.EncodeToString(sum[:]), c.config.now()
	if err := c.saves.hold(content, now); err != nil {
		return c.have, err
	}
	saved, err := c.config.store().save(ctx, want, c.have)
	if !first || !overtaken(err) {
		c.saves.note(content, now, err)
	}
	return saved, err
}

// notStored notes why what is in force, or is to be, is not stored.
func (c *cachedStore) notStored(why error) { c.trouble, c.loaded = why.Error(), false }

// overtaken reports whether another leader stored something meanwhile.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// tidy completes the last commit: it writes copies and deletes ConfigMaps, unless it is too early to do the same again.
func (c *cachedStore) tidy(ctx context.Context) error {
	if copies, gone := c.have.leftOver(); len(copies) == 0 && len(gone) == 0 {
		return nil
	}
	content, now := strconv.FormatInt(c.have.generation, 10), c.config.now()
	if err := c.tidies.hold(content, now); err != nil {
		return err
	}
	err := c.config.store().tidy(ctx, c.have)
	c.tidies.note(content, now, err)
	return err
}

// known returns the inventory that an edit is compared with: the one in force, or where that cannot be read as a whole
// the known part of it, by what remains and by the Nodes. Their pod CIDRs must not be given to others.
func (c *cachedStore) known(ctx context.Context) (*inventory.Inventory, error) {
	if c.spoilt == nil {
		return c.have.inventory, nil
	}
	nodes, err := c.config.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("what was accepted cannot be read, and it cannot be told which pod CIDRs Nodes have: %w", err)
	}
	return c.have.restWith(nodes.Items), nil
}

// trial returns the trial that is stored; false: none is.
func (c *cachedStore) trial() (edit.Trial, bool) {
	stored, found := c.have.parts[TrialName]
	if !found {
		return edit.Trial{}, false
	}
	return trialIn(stored), true
}

// trialOf returns the trial that is stored, where it is of this inventory.
func (c *cachedStore) trialOf(next *inventory.Inventory) (t edit.Trial, found bool) {
	parts := render(next, c.have)
	have, want := c.have.parts[TrialName], parts[len(parts)-1]
	if have == nil || have.Data[keyInventory] != want.Data[keyInventory] || have.Data[keyRacks] != want.Data[keyRacks] || generationOf(have) != generationOf(want) {
		return edit.Trial{}, false
	}
	return trialIn(have), true
}

// beginTrial stores a trial with its inventory and Nodes, and returns it with its ID.
func (c *cachedStore) beginTrial(ctx context.Context, next *inventory.Inventory, trial edit.Trial) (edit.Trial, error) {
	parts := render(next, c.have)
	common := parts[len(parts)-1]
	for _, slice := range parts[:len(parts)-1] {
		written, err := c.config.store().write(ctx, slice, c.have)
		if err != nil {
			return trial, fmt.Errorf("storing the inventory that is to be tried: configmap %s: %w", slice.Name, err)
		}
		c.have.parts[slice.Name] = written
	}
	trial.ID = trialID(common, trial)
	written, err := c.config.store().put(ctx, trialPart(common, trial), c.have.parts[TrialName])
	if err != nil {
		return trial, fmt.Errorf("storing the inventory that is to be tried: %w", err)
	}
	c.have.parts[TrialName] = written
	return trial, nil
}

// endTrial deletes the trial that is stored.
func (c *cachedStore) endTrial(ctx context.Context) error {
	if err := c.config.store().maps().Delete(ctx, TrialName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending a trial: deleting configmap %s: %w", TrialName, err)
	}
	delete(c.have.parts, TrialName)
	return nil
}
