package bgp

import (
	"context"
	"fmt"
	"time"

	"plinth.dev/plinth/wake"
)

// A router has one session with an address. With graceful restart at both ends it takes each new connection
// for a neighbour that restarts: two speakers with one address would take the session from each other for as
// long as both run. So this one does not connect while another program of the machine is connected.

const (
	// takenPause is the time for which a session is left to another program of this machine before
	// the kernel is asked again whether that still has it.
	takenPause = 2 * time.Second
	// takenReturn is the same where the router dropped both sessions for the other's new
	// connection, as FRR 8.4 does: GoBGP connects again after six seconds.
	takenReturn = 8 * time.Second
	// dialEnds is the time that GoBGP may take to give up connecting once its server is closed.
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
	// It passes where a session stands that the router began, and GoBGP waits for this to end it.
	if !wake.After(ctx, takenPause) {
		time.Sleep(dialEnds)
	}
}

// onOther ends an attempt that would take the session of another program.
func (s *session) onOther(other connection) {
	if s.phase == connecting {
		s.closeServer(context.Background(), withoutNotification)
		s.leaveTo(other, takenPause)
	}
}

// yield leaves the session to another program of this machine for a pause, if one has it.
func (s *session) yield(pause time.Duration) bool {
	other, taken := heldByOther(s.terms.Session)
	if taken {
		s.leaveTo(other, pause)
	}
	return taken
}

// leaveTo leaves the session to a program whose connection was seen.
func (s *session) leaveTo(other connection, pause time.Duration) {
	s.down(diagnosis{SessionTaken, fmt.Sprintf("another program of this machine is connected to the router, %v: a router has one session with an address, and this one waits until that connection is gone", other)})
	s.pause(pause)
}

// onTaken leaves the session to another program that took it, for longer each time: at some length this
// one is back before the other, however late that connects again.
func (s *session) onTaken(other connection) {
	s.leaveTo(other, max(s.retry.afterCollision(), takenReturn))
}
