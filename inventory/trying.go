package inventory

import (
	"slices"
	"time"
)

// defaultSessionTrial is the time that a session has to come up under new terms where safety does not
// say. Routers that have ended a session take a new one after 5 to 10 s.
const defaultSessionTrial = 30 * time.Second

// Trial returns the time that a session that is tried under new terms has to come up; 0: nothing is tried.
func (s Safety) Trial() time.Duration { return s.SessionTrial.Or(defaultSessionTrial) }

// trying are sessions with some routers that are as another inventory has them.
type trying struct {
	next    *Inventory
	routers []string
}

// Trying is the inventory but for the sessions with these routers, which are as next has them.
func (inv *Inventory) Trying(next *Inventory, routers []string) *Inventory {
	out := *inv
	out.trying = &trying{next, routers}
	return &out
}

func (t *trying) sessions(m Machine, all []Session) []Session {
	now, there := t.next.Same(m)
	if !there {
		return all
	}
	tried := func(s Session) bool { return slices.Contains(t.routers, s.Router) }
	next := slices.DeleteFunc(t.next.Sessions(now), func(s Session) bool { return !tried(s) })
	return append(slices.DeleteFunc(all, tried), next...)
}
