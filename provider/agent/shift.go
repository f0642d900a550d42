package agent

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// shiftPause is how long each step of a change of mode gives all other machines, and
// routers, to do the one before.
const shiftPause = 5 * time.Second

// carriage is how the pod network carries packets.
type carriage struct {
	mode  inventory.Mode
	vxlan inventory.VXLAN // in overlay; zero: there is no pod network
}

func carriageOf(inv *inventory.Inventory) carriage {
	return carriage{inv.PodNetwork.Mode, inv.PodNetwork.VXLAN}
}

// shift is a change of the pod network's mode, or of the tunnel's port and network, while it
// is under way. Machines hear of
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
	to    carriage
	since time.Time // zero: nothing is under way
	waits bool      // for begin
}

// stage is what holds at one moment.
type stage struct {
	routes inventory.Mode  // that routes are planned in
	tunnel bool            // there is one
	fabric bool            // pod CIDRs are announced as in fabric
	vxlan  inventory.VXLAN // of the tunnel
	also   inventory.VXLAN // that a tunnel takes packets with as well; zero: none
}

// change takes what is in force. The first one, and one after or before a CNI's
// own routes, is no change that anything could be made ready for.
func (s *shift) change(to carriage, now time.Time) {
	if to == s.to {
		return
	}
	s.was, _ = s.at(now)
	s.to, s.since, s.waits = to, now, true
	if s.was.routes == inventory.ModeNone || s.to.mode == inventory.ModeNone {
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
	st = stage{routes: s.to.mode, tunnel: s.to.mode == inventory.ModeOverlay, fabric: s.to.mode == inventory.ModeFabric, vxlan: s.to.vxlan}
	past := now.Sub(s.since)
	if s.waits {
		past = 0
	}
	if s.since.IsZero() || past >= 2*s.pause {
		return st, 0
	}
	st.tunnel = st.tunnel || s.was.tunnel
	st.fabric = st.fabric || s.was.fabric
	st.vxlan, st.also = s.tunnels(past < s.pause)
	if past < s.pause {
		st.routes = s.was.routes
		return st, s.pause - past
	}
	return st, 2*s.pause - past
}

// tunnels returns what the tunnel sends with while a change is under way, and what it takes
// packets with besides: at first what others will send with, then what they sent with. Of three
// within ten seconds the first is forgotten, unless it is the last one too.
func (s *shift) tunnels(early bool) (sends, also inventory.VXLAN) {
	switch {
	case !s.was.tunnel:
		return s.to.vxlan, inventory.VXLAN{}
	case s.to.mode != inventory.ModeOverlay:
		return s.was.vxlan, s.was.also // it goes when the change is over
	case s.to.vxlan == s.was.vxlan:
		return s.to.vxlan, s.was.also
	case early:
		return s.was.vxlan, s.to.vxlan
	}
	return s.to.vxlan, s.was.vxlan
}

// needed is the mode that decides which Nodes to watch: overlay while there is a tunnel.
func (st stage) needed() inventory.Mode {
	if st.tunnel {
		return inventory.ModeOverlay
	}
	return st.routes
}
