package plan

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// TransitionPause is how long each step of a change of mode gives all other machines, and
// routers, to do the one before.
const TransitionPause = 5 * time.Second

// Carriage is the way in which the pod network carries packets.
type Carriage struct {
	Mode  inventory.Mode
	VXLAN inventory.VXLAN // in overlay; zero: there is no pod network
}

// CarriageOf returns the way in which an inventory has packets carried.
func CarriageOf(inv *inventory.Inventory) Carriage {
	return Carriage{inv.PodNetwork.Mode, inv.PodNetwork.VXLAN}
}

// ModeTransition is a change of the pod network's mode, or of the tunnel's port and network, while it
// is under way. Machines hear of
// it at about the same time, but not at the same moment, and routers take a while to
// pass on their updates. So the means that carry packets of the new mode are there before
// the first packet goes that way, and those of the old one until the last
// one has: first the tunnel is made and the pod CIDRs are announced, then routes
// change, then what is left of the old mode goes.
//
// A change that is changed, or taken back, on the way begins anew from where the routes
// are then. What was made ready stays until all is over: other machines may be ahead.
type ModeTransition struct {
	Pause time.Duration
	was   Step // when the change was announced
	to    Carriage
	since time.Time // zero: nothing is under way
	waits bool      // for Begin
}

// Step is the state of a transition at one moment.
type Step struct {
	Routes    inventory.Mode  // that routes are planned in
	Tunnel    bool            // there is one
	Fabric    bool            // pod CIDRs are announced as in fabric
	VXLAN     inventory.VXLAN // of the tunnel
	AlsoVXLAN inventory.VXLAN // that a tunnel takes packets with as well; zero: none
}

// StepOf returns the step of an inventory while no transition is under way.
func StepOf(inv *inventory.Inventory) Step {
	return CarriageOf(inv).step()
}

// step returns the step where packets are carried in one way alone.
func (c Carriage) step() Step {
	return Step{Routes: c.Mode, Tunnel: c.Mode == inventory.ModeOverlay, Fabric: c.Mode == inventory.ModeFabric, VXLAN: c.VXLAN}
}

// Change begins the transition to the carriage that is in force. The first one, and one after or before a CNI's
// own routes, is no change that anything could be made ready for.
func (s *ModeTransition) Change(to Carriage, now time.Time) {
	if to == s.to {
		return
	}
	s.was, _ = s.At(now)
	s.to, s.since, s.waits = to, now, true
	if s.was.Routes == inventory.ModeNone || s.to.Mode == inventory.ModeNone {
		s.since, s.waits = time.Time{}, false
	}
}

// Begin begins the first step now, when all its inputs are known.
func (s *ModeTransition) Begin(now time.Time) {
	if s.waits {
		s.since, s.waits = now, false
	}
}

// At returns the step at a time, and how long it lasts; 0: for good.
func (s *ModeTransition) At(now time.Time) (st Step, left time.Duration) {
	st = s.to.step()
	past := now.Sub(s.since)
	if s.waits {
		past = 0
	}
	if s.since.IsZero() || past >= 2*s.Pause {
		return st, 0
	}
	st.Tunnel = st.Tunnel || s.was.Tunnel
	st.Fabric = st.Fabric || s.was.Fabric
	st.VXLAN, st.AlsoVXLAN = s.tunnels(past < s.Pause)
	if past < s.Pause {
		st.Routes = s.was.Routes
		return st, s.Pause - past
	}
	return st, 2*s.Pause - past
}

// tunnels returns the parameters that the tunnel sends with while a transition is under way, and those that it receives
// with besides: at first those that others will send with, then those that they sent with. Of three
// within ten seconds the first is forgotten, unless it is the last one too.
func (s *ModeTransition) tunnels(early bool) (sends, also inventory.VXLAN) {
	switch {
	case !s.was.Tunnel:
		return s.to.VXLAN, inventory.VXLAN{}
	case s.to.Mode != inventory.ModeOverlay:
		return s.was.VXLAN, s.was.AlsoVXLAN // it goes when the change is over
	case s.to.VXLAN == s.was.VXLAN:
		return s.to.VXLAN, s.was.AlsoVXLAN
	case early:
		return s.was.VXLAN, s.to.VXLAN
	}
	return s.to.VXLAN, s.was.VXLAN
}

// Needed is the mode that decides which Nodes to watch: overlay while there is a tunnel.
func (st Step) Needed() inventory.Mode {
	if st.Tunnel {
		return inventory.ModeOverlay
	}
	return st.Routes
}
