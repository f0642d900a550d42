package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

const (
	// firstAttemptTime and attemptTime are how long an attempt may take before it is cut
	// short and its likely cause is looked for. GoBGP by itself would wait four
	// minutes for the OPEN of a router that accepted the connection and hangs.
	firstAttemptTime = 6 * time.Second
	attemptTime      = 15 * time.Second
	// limitPause is how long a session stays down after the router sent too much; it
	// doubles each time, up to limitPauseMax.
	limitPause    = time.Minute
	limitPauseMax = 16 * time.Minute
	// steady is how long a session has to be up for its past failures to be forgotten.
	steady = 30 * time.Second
)

// session keeps one session up. One goroutine, run, owns everything in it.
type session struct {
	key          Key
	log          *slog.Logger
	port         int32 // to listen on; 0: connect only
	changed      func()
	bfdListeners *bfd.Listeners
	calls        chan func()
	events       chan event
	last         func()        // what the goroutine does last; set before quit is closed
	quit         chan struct{} // closed: the goroutine is to end
	ended        chan struct{} // closed: it has

	guard guard    // used by Set alone
	kept  withheld // by the guard

	undamped bool // for tests: a session that is lost again and again is not held back

	phase           phase
	terms           terms
	want            routes                    // what is to be announced
	have            routes                    // what the server was given: what the router takes of it
	unsure          []advertise.Advertisement // what it may have been given
	in              *instance                 // nil: no server runs
	notes           *notes
	bfd             *bfd.Session // nil: off
	pathLosses      uint64       // of bfd, that were seen
	timer           *time.Timer  // of the phase
	cancelDiagnosis context.CancelFunc
	diagnoses       int         // that were started
	attempts        int         // that failed since the session was last up for long
	attempt         symptoms    // of the last one
	establishedAt   time.Time   // that GoBGP has a session
	agreed          agreement   // of the last session that stood with these terms
	untaken         withheld    // what is wanted, and not given to the server for it
	noHold          bool        // that session has no hold time: BFD alone notices that an end is dead
	fellSilent      bool        // the last session did, soon: the next may be up at this end only
	limits          int         // times in a row that the router sent too much
	damping         bfd.Damping // of a session that is lost again and again
	collisions      bfd.Damping // with another speaker of the same address
	lastCollision   time.Time
	heldUntil       time.Time // it is paused on purpose; zero: it is not
	looksFirst      bool      // it was refused for what the router says of itself: a probe reads that before the next attempt
	loss            verdict   // why it was lost; not before it was up with these terms
	keepFor         time.Time // until then a router may hold our routes (RFC 4724)
	state           SessionState
	stale           bool    // state.Announced needs another look
	emptied         *uint64 // UPDATEs sent before all routes were withdrawn; nil: they were not, over this session
	base            counts  // of the servers before this one
}

func newSession(k Key, log *slog.Logger, port int32, restarting bool, t terms, listeners *bfd.Listeners, changed func()) *session {
	s := &session{
		key:          k,
		log:          logOf(log, k),
		port:         port,
		changed:      changed,
		calls:        make(chan func()),
		bfdListeners: listeners,
		events:       make(chan event),
		quit:         make(chan struct{}),
		ended:        make(chan struct{}),
		timer:        time.NewTimer(time.Hour),
		phase:        paused,
		agreed:       presumed,
		state:        SessionState{Key: k, Since: time.Now(), Cause: Connecting, Detail: "not connected yet"},
	}
	if restarting {
		s.keepFor = time.Now().Add(t.Session.RestartTime)
	}
	go s.run()
	return s
}

func logOf(log *slog.Logger, k Key) *slog.Logger {
	return log.With("router", k.Router, "address", k.Addr.String())
}

// rename gives the router another name, of which the session does not depend.
func (s *session) rename(k Key, log *slog.Logger) {
	s.log.Info("the router has another name now", "name", k.Router)
	s.key, s.log, s.state.Key, s.terms.Session.Router = k, logOf(log, k), k, k.Router
}

func (s *session) run() {
	defer close(s.ended)
	defer s.timer.Stop()
	for {
		select {
		case f := <-s.calls:
			f()
		case e := <-s.events:
			s.onPeerState(e)
		case <-s.pathChanged():
			s.onPath()
		case <-s.timer.C:
			s.onTimer()
		case <-s.quit:
			s.last()
			return
		}
	}
}

// do has f run by the goroutine that owns the session.
func (s *session) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	select {
	case s.calls <- func() { result <- f() }:
	case <-s.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set takes over new terms and routes. Terms that the old ones allow leave the session up.
func (s *session) set(ctx context.Context, t terms, want routes) error {
	same := s.terms.allow(t) && (s.phase != paused || !s.heldUntil.IsZero()) && !(s.looksFirst && s.terms.Session.BFD != t.Session.BFD)
	s.terms, s.want = t, want
	switch {
	case !same:
		return s.restart(ctx)
	case s.phase == refused:
		return s.terms.check()
	}
	return errors.Join(s.sync(), s.watchPath())
}

// restart begins anew, with new terms.
func (s *session) restart(ctx context.Context) error {
	s.stopDiagnosis()
	s.attempts, s.limits, s.fellSilent, s.loss = 0, 0, false, verdict{}
	s.damping, s.collisions, s.heldUntil, s.looksFirst = bfd.Damping{}, bfd.Damping{}, time.Time{}, false
	s.agreed = presumed
	if s.phase.hasServer() {
		s.closeServer(ctx, quietly)
		s.down(Connecting, "its terms have changed")
	}
	if err := s.terms.check(); err != nil {
		s.move(termsRefused)
		s.endBFD(ctx, 0)
		s.down(causeOfTerms(err))
		return err
	}
	s.move(termsAccepted)
	return s.connect(ctx)
}

// sync gives the server the difference: what is new first, so that a prefix that
// takes over from another is there before the other goes. After a failure the whole
// difference is announced again the next time, or withdrawn.
func (s *session) sync() error {
	if s.in == nil {
		return nil // the next server will be given all of it
	}
	give := s.taken()
	gone, add := sorted.Diff(s.have, give)
	gone = slices.DeleteFunc(append(gone, s.unsure...), give.Has) // it is announced again
	if len(add)+len(gone) == 0 {
		return nil
	}
	made, err := s.in.first.unless(func() error {
		s.stale = true
		s.noteEmptied(gone, give)
		return errors.Join(s.in.add(add), s.in.remove(gone))
	})
	switch {
	case !made:
		return nil // onEstablished does it
	case err != nil:
		s.unsure = slices.DeleteFunc(slices.Concat(gone, add), func(ad advertise.Advertisement) bool {
			_, err := path(s.terms.Session, ad)
			return err != nil // the server never saw it
		})
		s.have = s.have.Edit(s.unsure, nil)
		return fmt.Errorf("announcing and withdrawing: %w", err)
	}
	s.have, s.unsure = give, nil
	s.log.Info("announcements changed", "added", len(add), "withdrawn", len(gone), "total", s.have.Len())
	return nil
}

// taken is what is wanted, without what the router would not take.
func (s *session) taken() (give routes) {
	give, s.untaken = s.agreed.admit(s.terms.Session, s.want)
	return give
}

// connect starts a server with all routes in it, unless another program has the session.
func (s *session) connect(ctx context.Context) error {
	if s.yield(takenPause) {
		return nil
	}
	restarting := s.terms.Session.RestartTime > 0 && time.Now().Before(s.keepFor)
	s.notes = &notes{log: s.log}
	give := s.taken()
	in, err := start(ctx, s.terms, slices.Collect(give.All()), restarting, s.port, s.notes, s.sendEvent)
	s.timer.Reset(s.attemptTime())
	if err != nil {
		s.down(causeOfStart(s.terms.Session), err.Error())
		return err
	}
	s.move(serverStarted)
	s.in, s.have, s.unsure, s.stale, s.attempt = in, give, nil, true, symptoms{}
	return s.openBFD()
}

func (s *session) attemptTime() time.Duration {
	if s.attempts == 0 {
		return firstAttemptTime
	}
	return attemptTime
}

// sendEvent hands an event to the goroutine; it gives up when the session has ended.
func (s *session) sendEvent(e event) {
	select {
	case s.events <- e:
	case <-s.ended:
	}
}

// onPeerState takes in what a server reports, unless that server is gone already.
func (s *session) onPeerState(e event) {
	if e.from != s.in || s.in == nil {
		return
	}
	stands := e.state == gobgp.BGP_FSM_ESTABLISHED && e.other == nil
	switch limit := e.admin == api.PeerState_ADMIN_STATE_PFX_CT; {
	case e.noHold && s.phase == connecting:
		s.onNoHoldTime()
	case e.noHold, s.phase == unwatched && !stands: // GoBGP waits, and what it tells is of before
	case stands && (s.phase == connecting || s.phase == unwatched):
		s.agreed, s.noHold = e.agreed, s.phase == unwatched
		s.onEstablished()
	case e.other != nil:
		s.onOther(*e.other)
	case limit:
		s.onPrefixLimit()
	case e.state == gobgp.BGP_FSM_OPENCONFIRM:
		s.attempt.openReceived = true
	case s.phase == connecting && e.state == gobgp.BGP_FSM_IDLE && s.isCollision():
		s.onAttemptTimeout() // GoBGP would try again in its own time
	case s.phase.hasSession() && !stands:
		s.onSessionLost(causeOfLoss(s.notes.read(), s.terms))
	}
}

// onEstablished takes note that GoBGP has a session. One that fell silent right after
// the last start counts as up only once it has lived for longer than that: with TTL
// security at the router's end alone, our end comes up, and then receives nothing.
func (s *session) onEstablished() {
	s.establishedAt, s.emptied = time.Now(), nil
	if s.fellSilent {
		s.move(sessionDoubted)
	} else {
		s.move(sessionStands)
	}
	if err := s.sync(); err != nil { // what the router turns out not to take
		s.log.Warn("the router was told of prefixes that it does not take", "err", err)
	}
	// An interface that just came up may have had no usable address before.
	if err := s.watchPath(); err != nil {
		s.log.Warn("the path to the router is not watched", "err", err)
	}
	if s.phase == unconfirmed {
		s.timer.Reset(s.terms.Session.HoldTime + time.Second)
		return
	}
	s.up()
}

// onSessionLost replaces a server that lost its session, or looks for the cause.
func (s *session) onSessionLost(c Cause, detail string) {
	other, taken := heldByOther(s.terms.Session) // at once: FRR closes its connection soon
	lived := time.Since(s.establishedAt)
	if lost, _ := s.pathWasLost(); lost {
		c, detail = PathDown, pathDetail
	}
	s.fellSilent = !taken && c == HoldTimerExpired && lived < s.terms.Session.HoldTime+steady
	s.closeServer(context.Background(), quietly)
	switch {
	case taken:
		s.onTaken(other)
		return
	case !s.fellSilent:
		s.down(c, detail)
		s.reconnect(lived)
		return
	}
	if s.state.Up || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	s.attempts++
	s.diagnoseOrConnect()
}

// reconnect tries again at once after a loss, and later where the session is lost again and
// again, each time after so long a time up.
func (s *session) reconnect(up time.Duration) {
	hold := s.damping.Lost(up)
	if hold == 0 || s.undamped {
		s.heldUntil = time.Time{}
		s.tryConnect()
		return
	}
	if s.loss.cause == ClosedByRouter && s.terms.Session.RestartTime > 0 {
		hold = max(hold, takenReturn) // another speaker may have taken it, and was not seen
	}
	if !s.yield(max(hold, takenPause)) {
		s.pause(hold)
		s.showFlaps()
	}
}

// pause leaves the session down for a while.
func (s *session) pause(d time.Duration) {
	s.heldUntil = time.Now().Add(d)
	s.timer.Reset(d)
}

// showFlaps says that the session is held down, and why it was lost last.
func (s *session) showFlaps() {
	s.down(Flapping, fmt.Sprintf("it was lost %d times in a row, each time less than %v after it came up, and is left down for %v; the last time for %s: %s",
		s.damping.Flaps(), bfd.Steady, time.Until(s.heldUntil).Round(time.Second), s.loss.cause, s.loss.detail))
}

func (s *session) up() {
	s.state.Up, s.state.Since, s.state.Cause, s.state.Detail = true, time.Now(), CauseNone, ""
	s.stale = true
	s.timer.Reset(s.upTime())
	s.log.Info("session is up", "routes", s.have.Len(), "untaken", s.untaken.count)
	s.changed()
}

// down notes that the session is down, and since when it is.
func (s *session) down(c Cause, detail string) {
	wasUp := s.state.Up
	if wasUp {
		s.state.Losses++
		s.state.Since = time.Now()
		s.keepFor = time.Now().Add(s.terms.Session.RestartTime)
		s.loss = verdict{c, detail}
	}
	news := wasUp || s.state.Cause != c
	s.state.Up, s.state.Cause, s.state.Detail = false, c, detail
	s.state.Announced, s.state.Accepted, s.stale = nil, 0, false
	if news {
		s.log.Warn("session is down", "cause", string(c), "detail", detail)
		s.changed()
	}
}

func (s *session) tryConnect() {
	if err := s.connect(context.Background()); err != nil {
		s.log.Debug("cannot connect", "err", err) // its state says so
	}
}

// farewell is how a session ends.
type farewell bool

const (
	quietly          farewell = true  // a router in graceful restart keeps what it has until the session is back
	withNotification farewell = false // a router withdraws at once
)

// closeServer closes the server, and the session with it.
func (s *session) closeServer(ctx context.Context, how farewell) {
	s.keepCounts(ctx)
	s.in.close(ctx, how == quietly)
	s.in, s.have = nil, routes{}
	s.move(serverClosed)
}

// onPrefixLimit pauses a session whose router sent too much. GoBGP by itself would
// close it for ever.
func (s *session) onPrefixLimit() {
	s.limits++
	s.closeServer(context.Background(), quietly)
	s.down(causeOfPrefixLimit())
	s.pause(min(limitPause<<min(s.limits-1, 10), limitPauseMax))
}

// onTimer carries on when nothing has happened for as long as the phase gave it.
func (s *session) onTimer() {
	switch s.phase {
	case refused:
	case diagnosing:
		s.onDiagnosis(s.diagnoses, CauseNone, "")
	case established:
		if s.noHold && !s.isWatched() {
			s.refuseUnwatched(noBFDEither)
			return
		}
		s.limits, s.attempts, s.damping = 0, 0, bfd.Damping{}
		if s.noHold {
			s.timer.Reset(steady)
		}
	case unwatched:
		s.onBFDOverdue()
	case unconfirmed:
		s.fellSilent = false
		s.move(doubtOutlived)
		s.up()
	case paused:
		s.heldUntil = time.Time{}
		if s.looksFirst {
			s.diagnose()
			return
		}
		s.tryConnect()
	case connecting:
		s.onAttemptTimeout()
	}
}
