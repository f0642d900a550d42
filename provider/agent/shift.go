package agent

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// shiftPause is how long each step of a change of mode gives all other machines, and
// routers, to do the one before.
const shiftPause = 5 * time.Second

// shift is a change of the pod network's mode while it is under way. Machines hear of
// it at about the same time, but not at the same moment, and routers take a while to
// pass on what they are told. So what carries packets of the new mode is there before
// the first packet goes that way, and what carried those of the old one until the last
// one has: first the tunnel is made and the pod CIDRs are announced, then routes
// change, then what is left of the old mode goes.
//
// A change that is changed, or taken back, on the way begins anew from where the routes
// are then. What was made ready stays until all is over: other machines may be ahead.
type shift struct {
	pause time.Duration
	was   stage // when the change was announced
	to    inventory.Mode
	since time.Time // zero: nothing is under way
	waits bool      // for begin
}

// stage is what holds at one moment.
type stage struct {
	routes inventory.Mode // that routes are planned in
	tunnel bool           // there is one
	fabric bool           // pod CIDRs are announced as in fabric
}

// mode takes the mode that is in force. The first one, and one after or before a CNI's
// own routes, is no change that anything could be made ready for.
func (s *shift) mode(m inventory.Mode, now time.Time) {
	if m == s.to {
		return
	}
	s.was, _ = s.at(now)
	s.to, s.since, s.waits = m, now, true
	if s.was.routes == inventory.ModeNone || s.to == inventory.ModeNone {
		s.since, s.waits = time.Time{}, false
	}
}

// begin says that the first step is made now: all that it takes is known.
func (s *shift) begin(now time.Time) {
	if s.waits {
		s.since, s.waits = now, false
	}
}

// at returns what holds now, and how long it does; 0: for good.
func (s *shift) at(now time.Time) (st stage, left time.Duration) {
	st = stage{routes: s.to, tunnel: s.to == inventory.ModeOverlay, fabric: s.to == inventory.ModeFabric}
	past := now.Sub(s.since)
	if s.waits {
		past = 0
	}
	if s.since.IsZero() || past >= 2*s.pause {
		return st, 0
	}
	st.tunnel = st.tunnel || s.was.tunnel
	st.fabric = st.fabric || s.was.fabric
	if past < s.pause {
		st.routes = s.was.routes
		return st, s.pause - past
	}
	return st, 2*s.pause - past
}

// needed is the mode that decides which Nodes to watch: overlay while there is a tunnel.
func (st stage) needed() inventory.Mode {
	if st.tunnel {
		return inventory.ModeOverlay
	}
	return st.routes
}
