package bgp

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
)

const (
	// frrReopenTime is the time that FRR may take to set its BFD up anew after BGP came up: it replaces its end
	// of the BFD session, and reports it down for that moment.
	frrReopenTime = 2 * time.Second
	// sameLoss is the longest time between the detections of one loss of the path by the two ends. BIRD, where it is
	// first, closes the session with a NOTIFICATION that gives no reason.
	sameLoss = 500 * time.Millisecond
)

// pathLoss is the diagnosis where this end detected that the path is down.
var pathLoss = diagnosis{PathDown, "BFD lost the router"}

// bfdMonitor watches the path of a BGP session by BFD.
//
// GoBGP's own BFD is not used: with a server for each session, all but one of them
// would receive nothing on the shared UDP port, and in v4.8.0 a reset that it asks for
// while the session is down is carried out on the next one.
type bfdMonitor struct {
	listeners  *bfd.Listeners
	session    *bfd.Session // nil: off
	losses     uint64       // of the BFD session, that were handled
	noHoldTime bool         // the BGP session has none: BFD alone detects that the router is dead
}

// bfdOf returns the terms of a session's BFD.
func bfdOf(session inventory.Session) bfd.Terms {
	terms := bfd.Terms{
		Local: session.Local, Remote: session.RouterAddr, Multihop: session.Multihop > 1,
		Timers: bfd.Timers{Interval: session.BFD.Interval, Multiplier: session.BFD.Multiplier},
	}
	if terms.Multihop {
		terms.MinTTL = uint8(minTTL(session)) // BIRD's packets start with 64
	}
	if !terms.Local.IsValid() {
		terms.Local = linkLocal(session.RouterAddr.Zone())
	}
	return terms
}

// linkLocal returns this machine's link-local address on an interface; invalid: it has none.
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

// open opens the BFD session that the terms ask for. It begins only once the BGP session is first up: FRR
// would end a BGP session whose BFD was up before. A BFD session between the same ends stays, and changes
// its timers.
func (m *bfdMonitor) open(s inventory.Session, log *slog.Logger) (err error) {
	next := bfdOf(s)
	if m.session != nil {
		current := m.session.Terms()
		if current == next {
			return nil
		}
		if current.Timers = next.Timers; current == next && next.Interval > 0 {
			return m.session.SetTimers(next.Timers)
		}
	}
	m.close(context.Background(), 0)
	if next.Interval > 0 {
		m.losses = 0
		m.session, err = m.listeners.Open(next, log)
	}
	return err
}

// close ends the BFD session; holdFor above 0 asks the router to keep it up that long
// for the next process, as far as ctx allows.
func (m *bfdMonitor) close(ctx context.Context, holdFor time.Duration) {
	if m.session != nil {
		m.session.Close(ctx, holdFor)
		m.session = nil
	}
}

// changed receives a value when the state of the BFD session has changed.
func (m *bfdMonitor) changed() <-chan struct{} {
	if m.session == nil {
		return nil
	}
	return m.session.Changed()
}

// isUp reports whether the BFD session is up.
func (m *bfdMonitor) isUp() bool { return m.session != nil && m.session.Status().State == bfd.Up }

// state returns the state of the BFD session: down, too, when it cannot be opened; empty: the
// terms ask for no BFD.
func (m *bfdMonitor) state(s inventory.Session) string {
	switch {
	case m.session != nil:
		return m.session.Status().State.String()
	case s.BFD.Interval > 0:
		return bfd.Down.String()
	}
	return ""
}

// pathLost reports whether BFD has lost the path since the last call, and its status.
func (m *bfdMonitor) pathLost() (bool, bfd.Status) {
	if m.session == nil {
		return false, bfd.Status{}
	}
	status := m.session.Status()
	lost := status.Losses > m.losses
	m.losses = status.Losses
	return lost, status
}

// checkTime returns the time that a session is up before its timer fires.
func (m *bfdMonitor) checkTime() time.Duration {
	if m.noHoldTime {
		return bfdTimeout
	}
	return steady
}

// watchPath opens and begins BFD as the terms ask for it, where it does not run yet: its terms were
// edited, or another program had its port.
func (s *session) watchPath() error {
	if s.server == nil {
		return nil // connect does it
	}
	if err := s.bfd.open(s.terms.Session, s.log); err != nil {
		return err
	}
	if s.bfd.session != nil && s.phase.hasSession() {
		s.bfd.session.Begin()
	}
	return nil
}

// tryWatchPath calls watchPath, and logs an error: the session goes on without BFD.
func (s *session) tryWatchPath() {
	if err := s.watchPath(); err != nil {
		s.log.Warn("failed to watch the path to the router", "err", err)
	}
}
