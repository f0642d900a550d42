package bgp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"plinth.dev/plinth/bfd"
)

// common holds the settings and callbacks that all sessions of a [Speaker] share.
type common struct {
	log          *slog.Logger
	port         int32 // to listen on; 0: connect only
	bfdListeners *bfd.Listeners
	onChange     func() // called after a session came up, went down, or has another cause
	undamped     bool   // for tests: a session that flaps is not held down
}

// session keeps one BGP session up. Its goroutine, run, owns all fields but common, mailbox and guard.
type session struct {
	common
	mailbox
	key      Key
	log      *slog.Logger
	guard    guard    // used by Set alone
	withheld withheld // by the guard

	phase         phase
	timer         *time.Timer // of the phase
	terms         terms
	server        *instance // nil: no server runs
	out           adjRIBOut
	bfd           bfdMonitor
	diagnoser     diagnoser
	retry         retry
	establishedAt time.Time // when GoBGP established the session
	keptUntil     time.Time // a router in graceful restart may keep our routes until then (RFC 4724)
	state         SessionState
	past          counts // of the servers before this one
}

// newSession starts the goroutine of a session that is not set yet.
func newSession(key Key, shared common, restarting bool, terms terms) *session {
	result := &session{
		common:  shared,
		mailbox: newMailbox(),
		key:     key,
		log:     logOf(shared.log, key),
		timer:   time.NewTimer(time.Hour),
		phase:   paused,
		out:     adjRIBOut{agreed: presumed},
		bfd:     bfdMonitor{listeners: shared.bfdListeners},
		state:   SessionState{Key: key, Since: time.Now(), Cause: Connecting, Detail: "not connected yet"},
	}
	if restarting {
		result.keptUntil = time.Now().Add(terms.Session.RestartTime)
	}
	go result.run()
	return result
}

// logOf returns the logger of a session.
func logOf(log *slog.Logger, k Key) *slog.Logger {
	return log.With("router", k.Router, "address", k.Addr.String())
}

// rename gives the router another name, on which the session does not depend.
func (s *session) rename(k Key) {
	s.log.Info("renamed the router", "name", k.Router)
	s.key, s.log, s.state.Key, s.terms.Session.Router = k, logOf(s.common.log, k), k, k.Router
}

// run handles calls, events and the timer, one at a time, until quit is closed.
func (s *session) run() {
	defer close(s.ended)
	defer s.timer.Stop()
	for {
		select {
		case call := <-s.calls:
			call()
		case ev := <-s.events:
			s.onEvent(ev)
		case <-s.bfd.changed():
			s.onBFDChange()
		case <-s.timer.C:
			s.onTimer()
		case <-s.quit:
			s.last()
			return
		}
	}
}

// set replaces terms and routes. Terms that the old ones allow leave the session up.
func (s *session) set(ctx context.Context, t terms, desired routes) error {
	unchanged := s.terms.allow(t) && (s.phase != paused || s.retry.isHeld()) && !(s.retry.probeFirst && s.terms.Session.BFD != t.Session.BFD)
	s.terms, s.out.desired = t, desired
	switch {
	case !unchanged:
		return s.restart(ctx)
	case s.phase == refused:
		return s.terms.check()
	}
	return errors.Join(s.sync(), s.watchPath())
}

// restart closes the session and connects with new terms.
func (s *session) restart(ctx context.Context) error {
	s.endDiagnosis()
	s.retry, s.out.agreed = retry{}, presumed
	s.diagnoser.reset()
	if s.phase.hasServer() {
		s.closeServer(ctx, withoutNotification)
		s.down(diagnosis{Connecting, "its terms have changed"})
	}
	if err := s.terms.check(); err != nil {
		s.phase.move(termsRefused)
		s.bfd.close(ctx, 0)
		s.down(causeOfTerms(err))
		return err
	}
	s.phase.move(termsAccepted)
	return s.connect(ctx)
}

// sync gives the server the difference between the desired and the announced routes.
func (s *session) sync() error {
	if s.server == nil {
		return nil // the next server gets all of them
	}
	added, withdrawn, err := s.out.sync(s.server)
	if added+withdrawn > 0 {
		s.log.Info("changed announcements", "added", added, "withdrawn", withdrawn, "total", s.out.announced.Len())
	}
	return err
}

// connect starts a server with all routes in it, unless another program has the session.
func (s *session) connect(ctx context.Context) error {
	if s.yield(takenPause) {
		return nil
	}
	restarting := s.terms.Session.RestartTime > 0 && time.Now().Before(s.keptUntil)
	s.diagnoser.log = &gobgpLog{log: s.log}
	routes := s.out.accepted(s.terms.Session)
	in, err := start(ctx, s.terms, slices.Collect(routes.All()), restarting, s.port, s.diagnoser.log, s.send)
	s.timer.Reset(s.retry.attemptTime())
	if err != nil {
		s.down(diagnosis{causeOfStart(s.terms.Session), err.Error()})
		return err
	}
	s.phase.move(serverStarted)
	s.server, s.diagnoser.attempt = in, symptoms{}
	s.out.started(routes)
	return s.bfd.open(s.terms.Session, s.log)
}

// reconnect connects again after a loss, at which the session had been up for so long: at once, or after a
// pause where it flaps.
func (s *session) reconnect(up time.Duration) {
	hold := s.retry.losses.Lost(up)
	if hold == 0 || s.undamped {
		s.retry.heldUntil = time.Time{}
		s.tryConnect()
		return
	}
	if s.diagnoser.loss.cause == ClosedByRouter && s.terms.Session.RestartTime > 0 {
		hold = max(hold, takenReturn) // another speaker, that was not seen, may have it
	}
	if !s.yield(max(hold, takenPause)) {
		s.pause(hold)
		s.down(s.retry.flapping(s.diagnoser.loss))
	}
}

// connectAfter connects again after an attempt that failed for a cause: at once, or after a pause where a
// speaker that is not seen here has the session.
func (s *session) connectAfter(c Cause) {
	if c == SessionTaken {
		if hold := s.retry.afterCollision(); hold > 0 {
			s.pause(hold)
			return
		}
	}
	s.tryConnect()
}

// tryConnect connects, and logs an error.
func (s *session) tryConnect() {
	if err := s.connect(context.Background()); err != nil {
		s.log.Debug("failed to connect", "err", err) // the session's state has it too
	}
}

// pause holds the session down for a while.
func (s *session) pause(d time.Duration) {
	s.retry.heldUntil = time.Now().Add(d)
	s.timer.Reset(d)
}

// up reports the session as up.
func (s *session) up() {
	s.state.Up, s.state.Since, s.state.Cause, s.state.Detail = true, time.Now(), CauseNone, ""
	s.timer.Reset(s.bfd.checkTime())
	s.log.Info("established the session", "routes", s.out.announced.Len(), "unsupported", s.out.unsupported.count)
	s.onChange()
}

// down reports the session as down, and notifies if it was up or had another cause.
func (s *session) down(found diagnosis) {
	wasUp := s.state.Up
	changed := wasUp || s.state.Cause != found.cause
	if wasUp {
		s.state.Losses++
		s.state.Since = time.Now()
		s.keptUntil = time.Now().Add(s.terms.Session.RestartTime)
		s.diagnoser.loss = found
	}
	s.state.Up, s.state.Cause, s.state.Detail, s.state.Accepted = false, found.cause, found.detail, 0
	if changed {
		message := "has no session"
		if wasUp {
			message = "lost the session"
		}
		s.log.Warn(message, "cause", string(found.cause), "detail", found.detail)
		s.onChange()
	}
}

// closeServer closes the server, and the session with it.
func (s *session) closeServer(ctx context.Context, how closeMode) {
	last, _ := s.server.counts(ctx)
	s.past.updatesSent += last.updatesSent
	s.past.updatesReceived += last.updatesReceived
	s.server.close(ctx, how)
	s.server, s.out.announced = nil, routes{}
	s.phase.move(serverClosed)
}
