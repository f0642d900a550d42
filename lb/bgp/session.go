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

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

const (
	// firstPatience and patience are how long an attempt may take before it is cut
	// short and its likely cause is looked for. GoBGP by itself would wait four
	// minutes for the OPEN of a router that accepted the connection and hangs.
	firstPatience = 6 * time.Second
	patience      = 15 * time.Second
	// limitPause is how long a session stays down after the router sent too much; it
	// doubles each time, up to limitPauseMax.
	limitPause    = time.Minute
	limitPauseMax = 16 * time.Minute
	// steady is how long a session has to be up for its past failures to be forgotten.
	steady = 30 * time.Second
)

// session keeps one session up. One goroutine, run, owns everything in it.
type session struct {
	key     Key
	log     *slog.Logger
	port    int32 // to listen on; 0: connect only
	changed func()
	ears    *ears
	calls   chan func()
	events  chan event
	paths   chan change   // of BFD
	quit    chan struct{} // closed: the goroutine is to end
	ended   chan struct{} // closed: it has

	guard guard // used by Set alone

	terms    terms
	refused  error              // the terms cannot work
	want     routes             // what is to be said
	have     routes             // what the server was told
	unsure   []lb.Advertisement // what it may have been told
	in       *instance
	notes    *notes
	bfd      *link // nil: off
	alarm    *time.Timer
	search   context.CancelFunc // a search for the cause is under way
	searches int                // that were begun
	attempts int                // that failed since the session was last up for long
	linked   bool               // GoBGP has a session
	linkedAt time.Time
	agreed   inventory.Families // that the router takes
	halfway  bool               // the router sent its OPEN, and never took ours
	hung     bool               // the router took the connection, and then nothing came
	doubtful bool               // it may have it at this end only
	limits   int                // times in a row that the router sent too much
	loss     verdict            // why it was lost; not before it was up with these terms
	keepFor  time.Time          // until then a router may hold our routes (RFC 4724)
	state    SessionState
	stale    bool    // state.Announced needs another look
	emptied  *uint64 // UPDATEs that were sent before all was taken back; nil: it was not, over this session
	base     counts  // of the servers before this one
}

func newSession(k Key, log *slog.Logger, port int32, restarting bool, t terms, ears *ears, changed func()) *session {
	s := &session{
		key:     k,
		log:     log.With("router", k.Router, "address", k.Addr.String()),
		port:    port,
		changed: changed,
		calls:   make(chan func()),
		ears:    ears,
		events:  make(chan event),
		paths:   make(chan change),
		quit:    make(chan struct{}),
		ended:   make(chan struct{}),
		alarm:   time.NewTimer(time.Hour),
		state:   SessionState{Key: k, Since: time.Now(), Cause: Connecting, Detail: "not connected yet"},
	}
	if restarting {
		s.keepFor = time.Now().Add(t.Session.RestartTime)
	}
	go s.run()
	return s
}

func (s *session) run() {
	defer close(s.ended)
	defer s.alarm.Stop()
	for {
		select {
		case f := <-s.calls:
			f()
		case e := <-s.events:
			s.hear(e)
		case c := <-s.paths:
			s.path(c)
		case <-s.alarm.C:
			s.ring()
		case <-s.quit:
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
	same := s.terms == t && (s.in != nil || s.search != nil || s.refused != nil || s.limits > 0)
	s.terms, s.want = t, want
	if !same {
		return s.restart(ctx)
	}
	if s.refused != nil {
		return s.refused
	}
	return s.sync()
}

// restart begins anew, with new terms.
func (s *session) restart(ctx context.Context) error {
	s.stopSearch()
	s.attempts, s.limits, s.doubtful, s.loss = 0, 0, false, verdict{}
	if s.in != nil {
		s.hangUp(ctx)
		s.down(Connecting, "its terms have changed")
	}
	if s.refused = s.terms.check(); s.refused != nil {
		s.endBFD(0)
		s.down(refusal(s.refused))
		return s.refused
	}
	return s.connect(ctx)
}

// sync tells the server the difference: what is new first, so that a prefix that
// takes over from another is there before the other goes. After a failure all of the
// difference is told anew the next time, or taken back.
func (s *session) sync() error {
	if s.in == nil {
		return nil // the next server will be given all of it
	}
	gone, add := sorted.Diff(s.have, s.want)
	gone = slices.DeleteFunc(append(gone, s.unsure...), s.want.Has) // it is told anew
	if len(add)+len(gone) == 0 {
		return nil
	}
	s.stale = true
	s.empty(gone)
	if err := errors.Join(s.in.add(add), s.in.remove(gone)); err != nil {
		s.unsure = slices.DeleteFunc(slices.Concat(gone, add), func(ad lb.Advertisement) bool {
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
	in, err := start(ctx, s.terms, slices.Collect(s.want.All()), restarting, s.port, s.notes, s.tell)
	s.alarm.Reset(s.patience())
	if err != nil {
		s.down(unstarted(s.terms.Session), err.Error())
		return err
	}
	unwatched := s.openBFD()
	s.in, s.have, s.unsure, s.stale, s.halfway, s.hung = in, s.want, nil, true, false, false
	return unwatched
}

func (s *session) patience() time.Duration {
	if s.attempts == 0 {
		return firstPatience
	}
	return patience
}

// tell hands an event to the goroutine; it gives up when the session has ended.
func (s *session) tell(e event) {
	select {
	case s.events <- e:
	case <-s.ended:
	}
}

// hear takes in what a server says, unless that server is gone already.
func (s *session) hear(e event) {
	if e.from != s.in || s.in == nil {
		return
	}
	established := e.state == gobgp.BGP_FSM_ESTABLISHED
	switch limit := e.admin == api.PeerState_ADMIN_STATE_PFX_CT; {
	case established && !s.linked:
		s.agreed = e.agreed
		s.link()
	case limit:
		s.overLimit()
	case e.state == gobgp.BGP_FSM_OPENCONFIRM:
		s.halfway = true
	case s.linked && !established:
		s.lose(lost(s.notes.read()))
	}
}

// link is what happens when GoBGP has a session. One that fell silent right after
// the last start is not believed until it has lived for longer than that: with TTL
// security at the router's end alone, our end comes up, and hears nothing any more.
func (s *session) link() {
	s.linked, s.linkedAt, s.emptied = true, time.Now(), nil
	s.notes.forget()
	// A link that just came up may have had no address that could be used yet.
	if err := s.openBFD(); err != nil {
		s.log.Warn("the path to the router is not watched", "err", err)
	}
	if s.bfd != nil {
		s.bfd.begin()
	}
	if s.doubtful {
		s.alarm.Reset(s.terms.Session.HoldTime + time.Second)
		return
	}
	s.up()
}

// lose is what happens when GoBGP lost its session.
func (s *session) lose(c Cause, detail string) {
	s.doubtful = c == HoldTimerExpired && time.Since(s.linkedAt) < s.terms.Session.HoldTime+steady
	if !s.doubtful {
		s.reconnect(c, detail)
		return
	}
	s.hangUp(context.Background())
	if s.state.Up || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	s.attempts++
	s.lookOrConnect()
}

func (s *session) up() {
	s.state.Up, s.state.Since, s.state.Cause, s.state.Detail = true, time.Now(), CauseNone, ""
	s.stale = true
	s.alarm.Reset(steady)
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
	s.hangUp(context.Background())
	s.down(c, detail)
	s.tryConnect()
}

func (s *session) tryConnect() {
	if err := s.connect(context.Background()); err != nil {
		s.log.Debug("cannot connect", "err", err) // its state says so
	}
}

// hangUp closes the server without a word: a router in graceful restart keeps what
// it has until the session is back.
func (s *session) hangUp(ctx context.Context) {
	s.keepCounts(ctx)
	s.in.close(ctx, true)
	s.in, s.have, s.linked = nil, routes{}, false
}

// overLimit pauses a session whose router sent too much, instead of for ever.
func (s *session) overLimit() {
	s.limits++
	s.hangUp(context.Background())
	s.down(overLimit())
	s.alarm.Reset(min(limitPause<<min(s.limits-1, 10), limitPauseMax))
}

// ring is what happens when nothing else did for a while.
func (s *session) ring() {
	switch {
	case s.refused != nil:
	case s.search != nil:
		s.found(s.searches, CauseNone, "")
	case s.state.Up:
		s.limits, s.attempts = 0, 0
	case s.linked:
		s.doubtful = false
		s.up()
	case s.in == nil:
		s.tryConnect()
	default:
		s.investigate()
	}
}

// investigate ends an attempt that takes too long. Where its cause is not plain, the
// way to the router is left free for a while, after some attempts, to look for it.
func (s *session) investigate() {
	s.attempts++
	c, detail, sure := attempt(s.notes.read())
	s.hung = s.isHung()
	s.hangUp(context.Background())
	if sure || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	if sure {
		s.tryConnect()
		return
	}
	s.lookOrConnect()
}

// timeToLook reports whether the cause is looked for after so many attempts: 1, 2, 4, 8,
// 16, 32, 48... What is wrong may be mended and something else be wrong, so that in the
// end it is looked for every four minutes.
func timeToLook(attempts int) bool {
	return bits.OnesCount(uint(attempts)) == 1 || attempts%16 == 0
}

// lookOrConnect looks for the cause, unless that was done lately.
func (s *session) lookOrConnect() {
	if !timeToLook(s.attempts) {
		s.tryConnect()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTime)
	s.search = cancel
	s.searches++
	before := symptoms{halfway: s.halfway, hung: s.hung}
	t, search := s.terms, s.searches
	go func() {
		c, detail := diagnose(ctx, t, before)
		// What was found when the time was up is to be heard too.
		_ = s.do(context.Background(), func() error { s.found(search, c, detail); return nil })
	}()
	s.alarm.Reset(searchTime + time.Second)
}

// found ends a search, unless that has ended already. A search that came to no end
// leaves what is known.
func (s *session) found(search int, c Cause, detail string) {
	if s.search == nil || search != s.searches {
		return
	}
	s.stopSearch()
	// Having been refused does not unsay what was found out before.
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

func (s *session) stopSearch() {
	if s.search != nil {
		s.search()
		s.search = nil
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
	if s.bfd != nil {
		st.BFD = s.bfd.String()
	}
	st.UpdatesSent = s.base.updatesSent + c.updatesSent
	st.UpdatesReceived = s.base.updatesReceived + c.updatesReceived
	return st
}

// announced lists what GoBGP has told the router, or is about to: all that the
// server was given, as far as the router takes the family. To ask GoBGP for its
// adj-RIB-out would take a third of a second for ten thousand routes, in which it
// does nothing else; a test holds the two against each other.
func (s *session) announced() []netip.Prefix {
	ps := make([]netip.Prefix, 0, s.have.Len())
	for ad := range s.have.All() {
		if s.agreed.Has(ad.Prefix) {
			ps = append(ps, ad.Prefix)
		}
	}
	return ps
}
