package bgp

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
)

// GoBGP's own BFD is not used: with a server for each session, all but one of them
// would receive nothing on the shared UDP port, and in v4.8.0 a reset that it asks for
// while the session is down is carried out on the next one.

// frrSettles is how long FRR may take to set its BFD up after BGP.
const frrSettles = 2 * time.Second

// bfdOf are the terms of a session's BFD.
func bfdOf(s inventory.Session) bfd.Terms {
	t := bfd.Terms{
		Local: s.Local, Remote: s.RouterAddr, Multihop: s.Multihop > 1,
		Timers: bfd.Timers{Interval: s.BFD.Interval, Multiplier: s.BFD.Multiplier},
	}
	if t.Multihop {
		t.MinTTL = uint8(minTTL(s)) // BIRD's packets start with 64
	}
	if !t.Local.IsValid() {
		t.Local = linkLocal(s.RouterAddr.Zone())
	}
	return t
}

// openBFD opens the BFD session that the terms ask for; it begins when the BGP session
// is first up. Not sooner: FRR moves its end of a BFD session to another
// when BGP comes up, and would end the BGP session if the first had been up. A
// BFD session between the same ends stays, and changes its timers.
func (s *session) openBFD() error {
	t := bfdOf(s.terms.Session)
	if s.bfd != nil {
		was := s.bfd.Terms()
		same := was == t
		was.Timers = t.Timers
		switch {
		case same:
			return nil
		case was == t && t.Interval > 0:
			return s.bfd.SetTimers(t.Timers)
		}
	}
	s.endBFD(context.Background(), 0)
	if t.Interval == 0 {
		return nil
	}
	opened, err := s.bfdListeners.Open(t, s.log)
	if err != nil {
		return err
	}
	s.bfd, s.pathLosses = opened, 0
	return nil
}

// watchPath has the path watched as the terms ask for it, where it is not yet: BFD was
// edited, or another program had its port.
func (s *session) watchPath() error {
	if s.in == nil {
		return nil // the next server sees to it
	}
	if err := s.openBFD(); err != nil {
		return err
	}
	if s.bfd != nil && s.phase.hasSession() {
		s.bfd.Begin()
	}
	return nil
}

// bfdState is the state of the BFD session: down, too, when it cannot be opened; empty: the
// terms ask for no BFD.
func (s *session) bfdState() string {
	switch {
	case s.bfd != nil:
		return s.bfd.Status().State.String()
	case s.terms.Session.BFD.Interval > 0:
		return bfd.Down.String()
	}
	return ""
}

// linkLocal is this machine's link-local address on an interface; invalid: it has none.
// Its zone is the interface's index: sockets of one that was deleted do not work on the
// next of the same name.
func linkLocal(device string) netip.Addr {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return netip.Addr{}
	}
	addrs, _ := link.Addrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return p.Addr().WithZone(strconv.Itoa(link.Index))
		}
	}
	return netip.Addr{}
}

// endBFD ends the BFD session; holdFor above 0 asks the router to keep it up that long
// for the next process, as far as ctx allows.
func (s *session) endBFD(ctx context.Context, holdFor time.Duration) {
	if s.bfd != nil {
		s.bfd.Close(ctx, holdFor)
		s.bfd = nil
	}
}

// pathChanged receives a value when BFD has something to tell.
func (s *session) pathChanged() <-chan struct{} {
	if s.bfd == nil {
		return nil
	}
	return s.bfd.Changed()
}

// pathDetail explains PathDown where it was our end that noticed.
const pathDetail = "BFD lost the router"

// pathWasLost reports whether BFD has lost the path since it was last asked, and what it says.
func (s *session) pathWasLost() (bool, bfd.Status) {
	if s.bfd == nil {
		return false, bfd.Status{}
	}
	path := s.bfd.Status()
	lost := path.Losses > s.pathLosses
	s.pathLosses = path.Losses
	return lost, path
}

// onPath closes a session whose path was lost, with a NOTIFICATION: the routes that the
// router has of it lead nowhere.
//
// FRR sets BFD up anew as soon as BGP is up, and reports it down for that moment. This
// is ignored; should it be true, BGP's hold timer ends the session, where it has one.
func (s *session) onPath() {
	s.onWatched()
	lost, path := s.pathWasLost()
	settling := !s.noHold && path.LastLoss == bfd.NeighborDown && time.Since(s.establishedAt) < frrSettles
	switch {
	case !lost, s.phase.hasSession() && settling:
	case s.phase.hasSession():
		s.closeServer(context.Background(), withNotification)
		s.down(PathDown, pathDetail)
		s.reconnect(min(path.LastUp, time.Since(s.establishedAt)))
	case s.loss.cause == RouterRefused && time.Since(s.state.Since) < sameLoss:
		s.explainLoss(verdict{PathDown, pathDetail})
	case s.phase == paused && s.state.Cause == Flapping:
		s.reconnect(path.LastUp) // the path comes and goes still
	}
}

// sameLoss is how far apart both ends may notice one loss of the path. BIRD, where it is
// first, closes the session with a NOTIFICATION that does not say why.
const sameLoss = 500 * time.Millisecond

// explainLoss has a session that is down be so for a better reason.
func (s *session) explainLoss(v verdict) {
	was := s.loss
	s.loss = v
	if s.state.Cause == was.cause {
		s.down(v.cause, v.detail)
	} else if s.state.Cause == Flapping {
		s.showFlaps()
	}
}
