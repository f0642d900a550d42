package bgp

import (
	"context"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
)

// With a hold time of 0 neither end of a session sends KEEPALIVEs (RFC 4271, section 4.4), and BFD alone notices that the
// other one is dead. So nothing is announced before BFD is up. The router takes the session for established then, and BFD
// begins, which FRR ends where it was up before; GoBGP is kept from going on, so that the routes of a process before this
// one stay with a router in graceful restart: neither a route nor an End-of-RIB is sent.

const (
	// noHoldTime says why a session without a hold time is refused.
	noHoldTime = "the router's hold time is 0, so neither end would ever notice that the other one is dead: give it one, or turn BFD on (bfd in the inventory)"
	// noBFDEither says why one is refused whose BFD does not come up, or is down while the session stays.
	noBFDEither = "the router's hold time is 0, and BFD with it is not up, so neither end would ever notice that the other one is dead: set BFD up at the router, or give it a hold time"
	// awaitsBFD says what one waits for.
	awaitsBFD = "the router's hold time is 0: nothing is announced before BFD with it is up"
)

// bfdDue is how long BFD may take to come up once the router has a session without a hold time. It takes some seconds.
const bfdDue = 10 * time.Second

// awaitPath keeps GoBGP from announcing anything to a router without a hold time, until [instance.watched] or the end
// of the server. Both ends have agreed by then. No function of GoBGP's tells what the router's OPEN says, until the
// routes are on their way.
func (in *instance) awaitPath(ctx context.Context, onEvent func(event)) {
	select {
	case <-in.began:
	case <-ctx.Done():
		return
	}
	if !in.hasNoHoldTime() {
		return
	}
	in.held.Store(true)
	go onEvent(event{from: in, noHold: true})
	select {
	case <-in.letGo:
	case <-ctx.Done():
		time.Sleep(dialEnds)
	}
}

// hasNoHoldTime reports whether the router's OPEN has a hold time of 0. Only the goroutine of GoBGP's that read the OPEN
// may ask. TestTheHoldTimeOfAnOPENIsFound holds that a version of GoBGP still has it there.
func (in *instance) hasNoHoldTime() bool {
	hold := fieldOf(in.peer, "fsm", "recvOpen", "Body", "HoldTime")
	return hold.IsValid() && hold.CanUint() && hold.Uint() == 0
}

// watched lets GoBGP go on.
func (in *instance) watched() {
	in.letOff.Do(func() {
		in.held.Store(false)
		close(in.letGo)
	})
}

// onNoHoldTime has a session wait for BFD, or refuses it where none is wanted.
func (s *session) onNoHoldTime() {
	if s.terms.Session.BFD == (inventory.BFDProfile{}) {
		s.refuseUnwatched(noHoldTime)
		return
	}
	s.move(holdTimeMissed)
	s.noHold, s.establishedAt = true, time.Now()
	if s.state.Cause == Connecting {
		s.down(Connecting, awaitsBFD)
	}
	if err := s.watchPath(); err != nil {
		s.log.Warn("the path to the router is not watched", "err", err)
	}
	s.timer.Reset(bfdDue)
	s.onWatched()
}

// isWatched reports whether BFD is up.
func (s *session) isWatched() bool { return s.bfdState() == bfd.Up.String() }

// onWatched goes on with a session whose BFD is up. One that was refused for lack of it is tried at once: a router may start its BFD
// long after BGP, and this end of it runs on meanwhile.
func (s *session) onWatched() {
	switch {
	case !s.isWatched():
	case s.phase == unwatched:
		s.in.watched()
		s.timer.Reset(attemptTime)
	case s.phase == paused && s.looksFirst && s.noHold:
		s.onTimer()
	}
}

// onBFDOverdue ends a session whose BFD did not come up in time, or an attempt that went no further although it did.
func (s *session) onBFDOverdue() {
	if s.isWatched() {
		s.onAttemptTimeout()
		return
	}
	s.refuseUnwatched(noBFDEither)
}

// refuseUnwatched ends a session that has no hold time, for what lacks besides. A router that was told routes over it withdraws them at
// once. Where GoBGP is held still, the connection ends without a NOTIFICATION, and a router in graceful restart keeps what the
// process before this one announced for as long as its restart time says.
func (s *session) refuseUnwatched(detail string) {
	s.closeServer(context.Background(), withNotification)
	s.refuse(detail)
}

// upTime is how long a session is up before it is looked at again.
func (s *session) upTime() time.Duration {
	if s.noHold {
		return bfdDue
	}
	return steady
}
