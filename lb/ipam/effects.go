package ipam

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/lb"
)

// Effects is what follows from what happened.
type Effects struct {
	Reconcile  []Retry // Services to be looked at again
	Quarantine bool    // it has changed, and is to be written down
	Stale      []Stale // statuses that were found to show what their Services do not hold
}

// Retry names a Service to be looked at again, after a while or at once.
type Retry struct {
	Service lb.ServiceKey
	After   time.Duration
}

// Stale is an address that a status shows and its Service does not hold: nobody gets it
// before that is cleared.
type Stale struct {
	Service lb.ServiceKey
	Addr    netip.Addr
}

// And returns what follows from both.
func (e Effects) And(o Effects) Effects {
	return Effects{
		Reconcile:  append(e.Reconcile, o.Reconcile...),
		Quarantine: e.Quarantine || o.Quarantine,
		Stale:      append(e.Stale, o.Stale...),
	}
}

// retry has Services looked at, after a while or at once.
func (e *Effects) retry(after time.Duration, all ...lb.ServiceKey) {
	for _, k := range all {
		e.Reconcile = append(e.Reconcile, Retry{k, after})
	}
}

// take returns what has come together since it was last taken.
func (e *Effects) take() Effects {
	all := *e
	*e = Effects{}
	return all
}
