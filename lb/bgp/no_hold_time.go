package bgp

import (
	"context"
	"time"

	"plinth.dev/plinth/inventory"
)

// With a hold time of 0 neither end of a session sends KEEPALIVEs (RFC 4271, section 4.4), and BFD alone detects that the
// other one is dead. So nothing is announced before BFD is up. GoBGP is held back once both ends have agreed: the router
// has the session established by then, and BFD can begin. As neither a route nor an End-of-RIB is sent, a router in graceful
// restart keeps the routes of the process before this one.

const (
	// noHoldTime explains why a session without a hold time is refused.
	noHoldTime = "the router's hold time is 0, so neither end would ever notice that the other one is dead: give it one, or turn BFD on (bfd in the inventory)"
	// noBFDEither explains why one is refused whose BFD does not come up, or is down while the session stays.
	noBFDEither = "the router's hold time is 0, and BFD with it is not up, so neither end would ever notice that the other one is dead: set BFD up at the router, or give it a hold time"
	// awaitsBFD explains why one is not up yet.
	awaitsBFD = "the router's hold time is 0: nothing is announced before BFD with it is up"
)

// bfdTimeout bounds how long BFD may take to come up once the router has a session without a hold time. It takes some seconds.
const bfdTimeout = 10 * time.Second

// awaitBFD keeps GoBGP from announcing anything to a router without a hold time, until [instance.proceed] or the end
// of the server. Both ends have agreed by then. GoBGP exports the contents of the router's OPEN only once the
// routes are sent.
func (in *instance) awaitBFD(ctx context.Context, onEvent func(event)) {
	select {
	case <-in.began:
	case <-ctx.Done():
		return
	}
	if !in.hasNoHoldTime() {
		return
	}
	in.held.Store(true)
	go onEvent(event{from: in, noHoldTime: true})
	select {
	case <-in.released:
	case <-ctx.Done():
		time.Sleep(dialEnds)
	}
}

// hasNoHoldTime reports whether the router's OPEN has a hold time of 0. Only the goroutine of GoBGP's that read the OPEN
// may call it. TestTheHoldTimeOfAnOPENIsFound holds that a version of GoBGP still has it there.
func (in *instance) hasNoHoldTime() bool {
	hold := fieldOf(in.peer, "fsm", "recvOpen", "Body", "HoldTime")
	return hold.IsValid() && hold.CanUint() && hold.Uint() == 0
}

// proceed lets GoBGP go on.
func (in *instance) proceed() {
	in.release.Do(func() {
		in.held.Store(false)
		close(in.released)
	})
}

// onNoHoldTime has a session wait for BFD, or refuses it where the terms have none.
func (s *session) onNoHoldTime() {
	switch {
	case s.phase != connecting:
		return
	case s.terms.Session.BFD == (inventory.BFDProfile{}):
		s.refuseUnwatched(noHoldTime)
		return
	}
	s.phase.move(holdTimeMissed)
	s.bfd.noHoldTime, s.establishedAt = true, time.Now()
	if s.state.Cause == Connecting {
		s.down(diagnosis{Connecting, awaitsBFD})
	}
	s.tryWatchPath()
	s.timer.Reset(bfdTimeout)
	s.onBFDUp()
}

// onBFDUp goes on with a session whose BFD is up. One that was refused for lack of it connects at once: a router may start its BFD
// long after BGP, and this end of it runs on meanwhile.
func (s *session) onBFDUp() {
	switch {
	case !s.bfd.isUp():
	case s.phase == unwatched:
		s.server.proceed()
		s.timer.Reset(attemptTime)
	case s.phase == paused && s.retry.probeFirst && s.bfd.noHoldTime:
		s.onTimer()
	}
}

// onBFDTimeout ends a session whose BFD did not come up in time, or an attempt that went no further although it did.
func (s *session) onBFDTimeout() {
	if s.bfd.isUp() {
		s.onAttemptTimeout()
		return
	}
	s.refuseUnwatched(noBFDEither)
}

// refuseUnwatched ends a session without a hold time, for lack of BFD. A router that was sent routes over it withdraws them at
// once. Where GoBGP is held back, the connection ends without a NOTIFICATION, and a router in graceful restart keeps what the
// process before this one announced for its restart time.
func (s *session) refuseUnwatched(detail string) {
	s.closeServer(context.Background(), withNotification)
	s.refuse(detail)
}
