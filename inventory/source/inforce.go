package source

import (
	"context"
	"sync"
	"sync/atomic"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/wake"
)

// InForce is the inventory in force. Its zero value has none.
type InForce struct {
	mu        sync.Mutex // held while an inventory comes into force
	current   atomic.Pointer[inventory.Inventory]
	followers []func(*inventory.Inventory)
}

// Get returns the inventory in force; nil while there is none.
func (f *InForce) Get() *inventory.Inventory { return f.current.Load() }

// Set puts an inventory into force. It must never be changed afterwards.
func (f *InForce) Set(inv *inventory.Inventory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current.Store(inv)
	for _, follow := range f.followers {
		follow(inv)
	}
}

// Follow has a function called with each inventory that comes into force, and at once with
// the one that is. The calls come one after the other; it must not block.
func (f *InForce) Follow(follow func(*inventory.Inventory)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers = append(f.followers, follow)
	if inv := f.Get(); inv != nil {
		follow(inv)
	}
}

// Changes returns a channel that receives when an inventory is in force, or has come into
// force since it last received.
func (f *InForce) Changes() <-chan struct{} {
	changes := make(chan struct{}, 1)
	f.Follow(func(*inventory.Inventory) { wake.Up(changes) })
	return changes
}

// OnChange calls a function each time that an inventory comes into force, until ctx ends.
// While it runs, several are taken for one.
func (f *InForce) OnChange(ctx context.Context, call func()) {
	changes := f.Changes()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			call()
		}
	}
}

// Once calls a function when an inventory is in force for the first time, unless ctx ends
// before.
func (f *InForce) Once(ctx context.Context, call func()) {
	select {
	case <-ctx.Done():
	case <-f.Changes():
		call()
	}
}
