package vip

import (
	"context"
	"net/netip"
	"sync"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// store is the state of VIPs under its lock, and the API server's word of it.
type store struct {
	*environment
	claims    claim.Client
	mirror    *claim.Mirror
	journal   *claim.Journal
	ofAddress keyedLock[string] // one goroutine at a time writes the object of an address; locked last, and one of them

	quarantineChanged chan struct{} // what is in quarantine has changed

	ctx       context.Context // of serving Services; nil: that has not begun
	stop      func()          // ends it
	following sync.Mutex
	followed  map[netip.Addr]bool // addresses of other programs that are waited for

	mu    sync.Mutex
	state *ipam.State
}

// apply has verbs change the state, all at once, and carries out what follows.
func (b *store) apply(verbs ...func(*ipam.State) ipam.Effects) {
	var e ipam.Effects
	b.mu.Lock()
	for _, verb := range verbs {
		e = e.And(verb(b.state))
	}
	b.mu.Unlock()
	b.carryOut(e)
}

// note has the state take in something from which nothing follows.
func (b *store) note(verb func(*ipam.State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	verb(b.state)
}

// carryOut does what follows from a change of the state.
func (b *store) carryOut(e ipam.Effects) {
	for _, s := range e.Stale {
		b.log.Warn("a status shows an address that its Service does not hold; nobody else gets it before that is cleared", "service", s.Service, "vip", s.Addr)
	}
	if e.Quarantine {
		b.writeReleasedSoon()
	}
	for _, r := range e.Reconcile {
		if r.After > 0 {
			b.queue.AddAfter(r.Service.String(), r.After)
		} else {
			b.queue.Add(r.Service.String())
		}
	}
}

// ask returns what the state answers.
func ask[T any](b *store, question func(*ipam.State) T) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return question(b.state)
}

// told is what a Service was told last; false: nothing yet.
func (b *store) told(svc *v1.Service) (ipam.Decision, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.Told(keyOf(svc), string(svc.UID))
}

// writeReleasedSoon has what is in quarantine written down soon.
func (b *store) writeReleasedSoon() {
	select {
	case b.quarantineChanged <- struct{}{}:
	default:
	}
}
