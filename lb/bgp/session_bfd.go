package bgp

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// frrSettles is how long FRR may take to set its BFD up after BGP.
const frrSettles = 2 * time.Second

// openBFD has the path to the router watched from when the session first is up,
// where the terms say so. Not sooner: FRR moves its end of a BFD session to another
// when BGP comes up, and would end the BGP session if the first had been up. A
// session that is watched already stays as it is.
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
	s.bfd, err = newLink(t, s.ears, s.log, s.paths)
	return err
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

// endBFD ends that; keep is how long the router is to hold the path for good until
// another process watches it.
func (s *session) endBFD(keep time.Duration) {
	if s.bfd != nil {
		s.bfd.close(keep)
		s.bfd = nil
	}
}

// path is what happens when BFD has something to say. A session whose path is lost
// is closed with a NOTIFICATION: what the router knows of it leads nowhere.
//
// FRR sets BFD up anew as soon as BGP is up, and says for that moment that it is
// down. This is not believed; should it be true, BGP's hold timer ends the session.
func (s *session) path(c change) {
	settling := c == toldDown && time.Since(s.linkedAt) < frrSettles
	if c != pathLost && c != toldDown || !s.linked || settling {
		return
	}
	s.keepCounts(context.Background())
	s.in.close(context.Background(), false)
	s.in, s.have, s.linked = nil, routes{}, false
	s.down(PathDown, "BFD lost the router")
	s.tryConnect()
}
