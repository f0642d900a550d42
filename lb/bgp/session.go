package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
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

	guard guard // used by Set alone

	terms           terms
	refused         error                     // the terms cannot work
	want            routes                    // what is to be announced
	have            routes                    // what the server was given
	unsure          []advertise.Advertisement // what it may have been given
	in              *instance
	notes           *notes
	bfd             *bfd.Session // nil: off
	pathLosses      uint64       // of bfd, that were seen
	timer           *time.Timer
	cancelDiagnosis context.CancelFunc // not nil: the cause is being diagnosed
	diagnoses       int                // that were started
	attempts        int                // that failed since the session was last up for long
	isEstablished   bool               // GoBGP has a session
	establishedAt   time.Time
	agreed          inventory.Families // that the router takes
	openReceived    bool               // the router sent its OPEN, and never took ours
	hung            bool               // the router took the connection, and then nothing came
	unconfirmed     bool               // the session may be up at this end only
	limits          int                // times in a row that the router sent too much
	loss            verdict            // why it was lost; not before it was up with these terms
	keepFor         time.Time          // until then a router may hold our routes (RFC 4724)
	state           SessionState
	stale           bool    // state.Announced needs another look
	emptied         *uint64 // UPDATEs sent before all routes were withdrawn; nil: they were not, over this session
	base            counts  // of the servers before this one
}

func newSession(k Key, log *slog.Logger, port int32, restarting bool, t terms, listeners *bfd.Listeners, changed func()) *session {
	s := &session{
		key:          k,
		log:          log.With("router", k.Router, "address", k.Addr.String()),
		port:         port,
		changed:      changed,
		calls:        make(chan func()),
		bfdListeners: listeners,
		events:       make(chan event),
		quit:         make(chan struct{}),
		ended:        make(chan struct{}),
		timer:        time.NewTimer(time.Hour),
		state:        SessionState{Key: k, Since: time.Now(), Cause: Connecting, Detail: "not connected yet"},
	}
	if restarting {
		s.keepFor = time.Now().Add(t.Session.RestartTime)
	}
	go s.run()
	return s
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

// set takes over new terms and routes. Terms that stay leave the session up.
func (s *session) set(ctx context.Context, t terms, want routes) error {
	same := s.terms == t && (s.in != nil || s.cancelDiagnosis != nil || s.refused != nil || s.limits > 0)
	s.terms, s.want = t, want
	if !same {
		return s.restart(ctx)
	}
	if s.refused != nil {
		return s.refused
	}
	return errors.Join(s.sync(), s.watchPath())
}

// restart begins anew, with new terms.
func (s *session) restart(ctx context.Context) error {
	s.stopDiagnosis()
	s.attempts, s.limits, s.unconfirmed, s.loss = 0, 0, false, verdict{}
	if s.in != nil {
		s.closeQuietly(ctx)
		s.down(Connecting, "its terms have changed")
	}
	if s.refused = s.terms.check(); s.refused != nil {
		s.endBFD(ctx, 0)
		s.down(causeOfTerms(s.refused))
		return s.refused
	}
	return s.connect(ctx)
}

// sync gives the server the difference: what is new first, so that a prefix that
// takes over from another is there before the other goes. After a failure the whole
// difference is announced again the next time, or withdrawn.
func (s *session) sync() error {
	if s.in == nil {
		return nil // the next server will be given all of it
	}
	gone, add := sorted.Diff(s.have, s.want)
	gone = slices.DeleteFunc(append(gone, s.unsure...), s.want.Has) // it is announced again
	if len(add)+len(gone) == 0 {
		return nil
	}
	s.stale = true
	s.noteEmptied(gone)
	if err := errors.Join(s.in.add(add), s.in.remove(gone)); err != nil {
		s.unsure = slices.DeleteFunc(slices.Concat(gone, add), func(ad advertise.Advertisement) bool {
			_, err := path(s.terms.Session, ad)
			return err != nil // the server never saw it
		})
		s.have = s.have.Edit(s.unsure, nil)
		return fmt.Errorf("announcing and withdrawing: %w", err)
	}
	s.have, s.unsure = s.want, nil
	s.log.Info("announcements changed", "added", len(add), "withdrawn", len(gone), "total", s.have.Len())
	return nil
}

// connect starts a server with all routes in it.
func (s *session) connect(ctx context.Context) error {
	restarting := s.terms.Session.RestartTime > 0 && time.Now().Before(s.keepFor)
	s.notes = &notes{log: s.log}
	in, err := start(ctx, s.terms, slices.Collect(s.want.All()), restarting, s.port, s.notes, s.sendEvent)
	s.timer.Reset(s.attemptTime())
	if err != nil {
		s.down(causeOfStart(s.terms.Session), err.Error())
		return err
	}
	unwatched := s.openBFD()
	s.in, s.have, s.unsure, s.stale, s.openReceived, s.hung = in, s.want, nil, true, false, false
	return unwatched
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
	established := e.state == gobgp.BGP_FSM_ESTABLISHED
	switch limit := e.admin == api.PeerState_ADMIN_STATE_PFX_CT; {
	case established && !s.isEstablished:
		s.agreed = e.agreed
		s.onEstablished()
	case limit:
		s.onPrefixLimit()
	case e.state == gobgp.BGP_FSM_OPENCONFIRM:
		s.openReceived = true
	case s.isEstablished && !established:
		s.onSessionLost(causeOfLoss(s.notes.read()))
	}
}

// onEstablished takes note that GoBGP has a session. One that fell silent right after
// the last start counts as up only once it has lived for longer than that: with TTL
// security at the router's end alone, our end comes up, and then receives nothing.
func (s *session) onEstablished() {
	s.isEstablished, s.establishedAt, s.emptied = true, time.Now(), nil
	s.notes.reset()
	// An interface that just came up may have had no usable address before.
	if err := s.openBFD(); err != nil {
		s.log.Warn("the path to the router is not watched", "err", err)
	}
	if s.bfd != nil {
		s.bfd.Begin()
	}
	if s.unconfirmed {
		s.timer.Reset(s.terms.Session.HoldTime + time.Second)
		return
	}
	s.up()
}

// onSessionLost replaces a server that lost its session, or looks for the cause.
func (s *session) onSessionLost(c Cause, detail string) {
	s.unconfirmed = c == HoldTimerExpired && time.Since(s.establishedAt) < s.terms.Session.HoldTime+steady
	if !s.unconfirmed {
		s.reconnect(c, detail)
		return
	}
	s.closeQuietly(context.Background())
	if s.state.Up || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	s.attempts++
	s.diagnoseOrConnect()
}

func (s *session) up() {
	s.state.Up, s.state.Since, s.state.Cause, s.state.Detail = true, time.Now(), CauseNone, ""
	s.stale = true
	s.timer.Reset(steady)
	s.log.Info("session is up", "routes", s.have.Len())
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

// reconnect replaces the server at once.
func (s *session) reconnect(c Cause, detail string) {
	s.closeQuietly(context.Background())
	s.down(c, detail)
	s.tryConnect()
}

func (s *session) tryConnect() {
	if err := s.connect(context.Background()); err != nil {
		s.log.Debug("cannot connect", "err", err) // its state says so
	}
}

// closeQuietly closes the server without a NOTIFICATION: a router in graceful restart keeps what
// it has until the session is back.
func (s *session) closeQuietly(ctx context.Context) {
	s.keepCounts(ctx)
	s.in.close(ctx, true)
	s.in, s.have, s.isEstablished = nil, routes{}, false
}

// onPrefixLimit pauses a session whose router sent too much. GoBGP by itself would
// close it for ever.
func (s *session) onPrefixLimit() {
	s.limits++
	s.closeQuietly(context.Background())
	s.down(causeOfPrefixLimit())
	s.timer.Reset(min(limitPause<<min(s.limits-1, 10), limitPauseMax))
}

// onTimer carries on when nothing has happened for as long as the timer was set to.
func (s *session) onTimer() {
	switch {
	case s.refused != nil:
	case s.cancelDiagnosis != nil:
		s.onDiagnosis(s.diagnoses, CauseNone, "")
	case s.state.Up:
		s.limits, s.attempts = 0, 0
	case s.isEstablished:
		s.unconfirmed = false
		s.up()
	case s.in == nil:
		s.tryConnect()
	default:
		s.onAttemptTimeout()
	}
}

// onAttemptTimeout ends an attempt that takes too long. Where its cause is not plain,
// after some attempts no new one is made for a while, so that probes can look for it.
func (s *session) onAttemptTimeout() {
	s.attempts++
	c, detail, sure := causeOfAttempt(s.notes.read())
	s.hung = s.isHung()
	s.closeQuietly(context.Background())
	if sure || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	if sure {
		s.tryConnect()
		return
	}
	s.diagnoseOrConnect()
}

// diagnosisDue reports whether to diagnose after so many attempts: 1, 2, 4, 8, 16, 32,
// 48... What is wrong may change, so in the end it is diagnosed every four minutes.
func diagnosisDue(attempts int) bool {
	return bits.OnesCount(uint(attempts)) == 1 || attempts%16 == 0
}

// diagnoseOrConnect looks for the cause, unless that was done lately.
func (s *session) diagnoseOrConnect() {
	if !diagnosisDue(s.attempts) {
		s.tryConnect()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), diagnosisTime)
	s.cancelDiagnosis = cancel
	s.diagnoses++
	before := symptoms{openReceived: s.openReceived, hung: s.hung}
	t, diagnosis := s.terms, s.diagnoses
	go func() {
		c, detail := diagnose(ctx, t, before)
		// A result that comes when the time is up counts too.
		_ = s.do(context.Background(), func() error { s.onDiagnosis(diagnosis, c, detail); return nil })
	}()
	s.timer.Reset(diagnosisTime + time.Second)
}

// onDiagnosis ends a diagnosis, unless it has ended already. One without a result
// leaves the cause as it is.
func (s *session) onDiagnosis(diagnosis int, c Cause, detail string) {
	if s.cancelDiagnosis == nil || diagnosis != s.diagnoses {
		return
	}
	s.stopDiagnosis()
	// That the router takes no connection does not refute what was found before.
	switch {
	case c == CauseNone, c == ClosedByRouter && s.state.Cause == TTLMismatch:
	case s.loss.outlives(c):
		s.down(s.loss.cause, s.loss.detail+"; since then "+detail)
	default:
		s.down(c, detail)
	}
	s.tryConnect()
}

// isHung reports whether the one connection of an attempt still waits for an OPEN.
func (s *session) isHung() bool {
	c, err := s.in.counts(context.Background())
	return err == nil && c.opensSent == 1 && c.opensReceived == 0
}

func (s *session) stopDiagnosis() {
	if s.cancelDiagnosis != nil {
		s.cancelDiagnosis()
		s.cancelDiagnosis = nil
	}
}

// keepCounts adds up what the server counted before it goes.
func (s *session) keepCounts(ctx context.Context) {
	c, err := s.in.counts(ctx)
	if err != nil {
		return
	}
	s.base.updatesSent += c.updatesSent
	s.base.updatesReceived += c.updatesReceived
}

// snapshot is the state as it is now. Where the session's goroutine is busy for
// longer than ctx allows, it is a state without a cause.
func (s *session) snapshot(ctx context.Context) SessionState {
	st := SessionState{Key: s.key, Cause: Connecting, Detail: "the session is busy"}
	answer := make(chan SessionState, 1)
	if err := s.do(ctx, func() error { answer <- s.report(ctx); return nil }); err == nil {
		st = <-answer
	}
	return st
}

func (s *session) report(ctx context.Context) SessionState {
	var c counts
	if s.in != nil {
		if now, err := s.in.counts(ctx); err == nil {
			c = now
		}
		if n, err := s.in.accepted(); err == nil {
			s.state.Accepted = n
		}
		if s.stale && s.state.Up {
			s.state.Announced, s.stale = s.announced(), false
		}
	}
	st := s.state
	st.BFD = s.bfdState()
	st.UpdatesSent = s.base.updatesSent + c.updatesSent
	st.UpdatesReceived = s.base.updatesReceived + c.updatesReceived
	return st
}

// announced lists what GoBGP has announced to the router, or is about to: all that the
// server was given, as far as the router takes the family. To ask GoBGP for its
// adj-RIB-out would take a third of a second for ten thousand routes, in which it
// does nothing else; a test compares the two.
func (s *session) announced() []netip.Prefix {
	ps := make([]netip.Prefix, 0, s.have.Len())
	for ad := range s.have.All() {
		if s.agreed.Has(ad.Prefix) {
			ps = append(ps, ad.Prefix)
		}
	}
	return ps
}
