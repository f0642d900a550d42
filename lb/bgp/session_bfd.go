package bgp

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
)

// frrSettles is how long FRR may take to set its BFD up after BGP.
const frrSettles = 2 * time.Second

// openBFD opens the BFD session that the terms ask for; it begins when the BGP session
// is first up. Not sooner: FRR moves its end of a BFD session to another
// when BGP comes up, and would end the BGP session if the first had been up. A
// BFD session with the same terms stays as it is.
func (s *session) openBFD() error {
	t := bfdOf(s.terms.Session)
	if !t.local.IsValid() {
		t.local = linkLocal(t.router.Zone())
	}
	if s.bfd != nil && s.bfd.terms == t {
		return nil
	}
	s.endBFD(0)
	if t.profile.Interval == 0 {
		return nil
	}
	var err error
	s.bfd, err = newBFDSession(t, s.bfdListeners, s.log, s.bfdEvents)
	return err
}

// watchPath opens the BFD session that could not be opened before, such as when another
// program had its port.
func (s *session) watchPath() error {
	if s.in == nil || s.bfd != nil || s.terms.Session.BFD.Interval == 0 {
		return nil
	}
	if err := s.openBFD(); err != nil {
		return err
	}
	if s.isEstablished {
		s.bfd.begin()
	}
	return nil
}

// bfdState is "up", "init" or "down", which it also is when it cannot be opened; empty:
// the terms ask for no BFD.
func (s *session) bfdState() string {
	switch {
	case s.bfd != nil:
		return s.bfd.String()
	case s.terms.Session.BFD.Interval > 0:
		return bfd.StateDown.String()
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
// for the next process.
func (s *session) endBFD(holdFor time.Duration) {
	if s.bfd != nil {
		s.bfd.close(holdFor)
		s.bfd = nil
	}
}

// onBFD closes a session whose path is lost, with a NOTIFICATION: the routes that the
// router has of it lead nowhere.
//
// FRR sets BFD up anew as soon as BGP is up, and reports it down for that moment. This
// is ignored; should it be true, BGP's hold timer ends the session.
func (s *session) onBFD(e bfdEvent) {
	settling := e == bfdNeighborDown && time.Since(s.establishedAt) < frrSettles
	if e != bfdTimedOut && e != bfdNeighborDown || !s.isEstablished || settling {
		return
	}
	s.keepCounts(context.Background())
	s.in.close(context.Background(), false)
	s.in, s.have, s.isEstablished = nil, routes{}, false
	s.down(PathDown, "BFD lost the router")
	s.tryConnect()
}
