package bgp

import (
	"context"
	"time"
)

// bfdSettles is how long a router may take to set its BFD up after BGP.
const bfdSettles = 2 * time.Second

// startBFD has the path to the router watched, where the terms say so. A session
// that is watched already stays as it is.
func (s *session) startBFD() error {
	t := bfdOf(s.terms.Session)
	if s.bfd != nil && s.bfd.terms == t {
		return nil
	}
	s.endBFD()
	if t.profile.Interval == 0 {
		return nil
	}
	var err error
	s.bfd, err = newLink(t, s.ears, s.log, s.paths)
	return err
}

func (s *session) endBFD() {
	if s.bfd != nil {
		s.bfd.close()
		s.bfd = nil
	}
}

// path is what happens when BFD has something to say. A session whose path is lost
// is closed with a NOTIFICATION: what the router knows of it leads nowhere.
//
// FRR sets BFD up anew as soon as BGP is up, and says for that moment that it is
// down. This is not believed; should it be true, BGP's hold timer ends the session.
func (s *session) path(c change) {
	settling := c == toldDown && time.Since(s.linkedAt) < bfdSettles
	if c != pathLost && c != toldDown || !s.linked || settling {
		return
	}
	s.keepCounts(context.Background())
	s.in.close(context.Background(), false)
	s.in, s.have, s.linked = nil, nil, false
	s.down(PathDown, "BFD lost the router")
	s.tryConnect()
}
