package ipam

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/lb"
)

// Effects holds the work that follows from an event: Services to reconcile, state to write, statuses to clear.
type Effects struct {
	Reconcile  []Retry // Services to reconcile again
	Quarantine bool    // it has changed, and is to be stored
	Stale      []Stale // statuses that were found to show addresses that their Services do not hold
}

// Retry names a Service to reconcile again, after a while or at once.
type Retry struct {
	Service lb.ServiceKey
	After   time.Duration
}

// Stale is an address that a status shows and its Service does not hold: it is granted to
// no Service before the status is cleared.
type Stale struct {
	Service lb.ServiceKey
	Addr    netip.Addr
}

// And returns the effects of both.
func (e Effects) And(o Effects) Effects {
	return Effects{
		Reconcile:  append(e.Reconcile, o.Reconcile...),
		Quarantine: e.Quarantine || o.Quarantine,
		Stale:      append(e.Stale, o.Stale...),
	}
}

// retry has Services reconciled, after a while or at once.
func (e *Effects) retry(after time.Duration, all ...lb.ServiceKey) {
	for _, k := range all {
		e.Reconcile = append(e.Reconcile, Retry{k, after})
	}
}

// take returns the effects since it was last called, and clears them.
func (e *Effects) take() Effects {
	all := *e
	*e = Effects{}
	return all
}
