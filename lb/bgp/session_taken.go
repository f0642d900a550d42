package bgp

import (
	"context"
	"fmt"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/bfd"
)

// A router has one session with an address. With graceful restart at both ends it takes each
// new connection for a neighbour that restarts: two speakers with one address would take the
// session from each other for as long as both run. So this one does not connect while another
// program of the machine is connected.

// collisionDetail explains that a router refuses a connection where no other program's is seen.
const collisionDetail = ": it has another session with this machine's address; no other program's connection is seen here, " +
	"so it is one from behind an address translation, another machine's with the same address, or this machine's own from before a crash until its hold time is over"

const (
	// takenPause is how long a session is left to another program of this machine before
	// the kernel is asked again whether it still has it.
	takenPause = 2 * time.Second
	// takenReturn is the same where the router dropped both sessions for the other's new
	// connection, as FRR 8.4 does: GoBGP tries again after six seconds.
	takenReturn = 8 * time.Second
	// takenForgotten is how long no collision may happen for past ones to be forgotten:
	// BIRD and FRR try again after one and two minutes.
	takenForgotten = 10 * time.Minute
	// dialEnds is how long GoBGP may take to give up connecting once its server is closed.
	dialEnds = 100 * time.Millisecond
)

// awaitTurn keeps GoBGP from connecting while another program has the session, until the
// server is closed for that. GoBGP begins two seconds after it was started, and goes on by itself.
func (in *instance) awaitTurn(ctx context.Context, onEvent func(event)) {
	other, taken := heldByOther(in.terms.Session)
	if !taken || ctx.Err() != nil {
		return
	}
	go onEvent(event{from: in, other: &other})
	select {
	case <-ctx.Done():
		time.Sleep(dialEnds)
	case <-time.After(takenPause): // a session stands that the router began, and GoBGP waits for this to end it
	}
}

// onOther ends an attempt that would take the session of another program.
func (s *session) onOther(other connection) {
	if s.phase == connecting {
		s.closeServer(context.Background(), quietly)
		s.leaveTo(other, takenPause)
	}
}

// yield leaves the session to another program of this machine, if one has it, until a pause is
// over.
func (s *session) yield(pause time.Duration) bool {
	other, taken := heldByOther(s.terms.Session)
	if taken {
		s.leaveTo(other, pause)
	}
	return taken
}

// leaveTo leaves the session to a program whose connection was seen.
func (s *session) leaveTo(other connection, pause time.Duration) {
	s.down(SessionTaken, fmt.Sprintf("another program of this machine is connected to the router, %v: a router has one session with an address, and this one waits until that connection is gone", other))
	s.pause(pause)
}

// onTaken leaves the session to another program that took it, for longer each time: at some
// length it is back before us, however late it tries again.
func (s *session) onTaken(other connection) {
	s.leaveTo(other, max(s.onCollision(), takenReturn))
}

// onCollision counts a collision with another speaker, and returns for how long not to
// connect: not at all at first, then 2 s, 4, 8 and so on up to 60.
func (s *session) onCollision() time.Duration {
	if time.Since(s.lastCollision) > takenForgotten {
		s.collisions = bfd.Damping{}
	}
	s.lastCollision = time.Now()
	return s.collisions.Lost(0)
}

// isCollision reports whether the router refused a connection because it has another from the
// same address (RFC 4271, section 6.8; RFC 4486).
func (n notification) isCollision() bool {
	return n.code == gobgp.BGP_ERROR_CEASE && n.subcode == gobgp.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION
}

// isCollision reports whether an attempt ended with that. Where this machine accepts
// connections as well, one of two always does.
func (s *session) isCollision() bool {
	n := s.notes.read().received
	return s.port == 0 && n != nil && n.isCollision()
}

// connectAfter tries again after an attempt that failed for a cause: at once, and later each time
// where somebody has the session who is not seen here.
func (s *session) connectAfter(c Cause) {
	if c == SessionTaken {
		if hold := s.onCollision(); hold > 0 {
			s.pause(hold)
			return
		}
	}
	s.tryConnect()
}
