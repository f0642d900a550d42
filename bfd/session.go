package bfd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"plinth.dev/plinth/wake"
)

// startDelay is the time that a new session receives before it sends. In that time a
// packet arrives from a peer that still has the session of an earlier process up,
// and FRR, which sets its end up only once BGP is up, has done so.
const startDelay = time.Second

// Session is one session. It can be used by several goroutines.
type Session struct {
	terms     Terms
	log       *slog.Logger
	dial      func(port uint16) (io.WriteCloser, error) // what packets leave through, to a port of the peer
	listeners []*listener
	received  chan arrival
	timers    chan Timers     // to change to; the latest
	says      chan Diagnostic // to say while the session is up; the latest
	changed   chan struct{}
	startOnce sync.Once
	start     chan struct{} // closed: send
	delay     time.Duration // from then on until the first packet; set before start is closed
	closeOnce sync.Once
	last      farewell      // set before quit is closed
	quit      chan struct{} // closed: end
	ended     chan struct{} // closed: it has

	mu     sync.Mutex
	status Status
	now    Timers // of the terms, as they were set last
	heard  Heard
}

// farewell is the way in which a session ends.
type farewell struct {
	ctx      context.Context
	handOver time.Duration // above 0: how long the peer is asked to keep the session up
}

// Status is the state of a session.
type Status struct {
	State      State
	Since      time.Time     // it has been in that state
	Diagnostic Diagnostic    // why it is not up
	Peer       State         // what the peer said last of its own end; Down: it was not heard for the detection time
	Says       Diagnostic    // what the peer said last besides, such as [ConcatenatedPathDown] of a session that is up
	Losses     uint64        // times that the path was lost while the session was up
	LastLoss   Event         // the last of them: TimedOut or NeighborDown; Unchanged: none
	LastUp     time.Duration // for how long the session was up before that
}

// Open opens the sockets of a session, which sends nothing before [Session.Begin]. A session
// with the same peer must be closed first. Its error is [ErrTerms], or one of the system,
// such as EADDRINUSE where another program has the port.
func (ls *Listeners) Open(terms Terms, log *slog.Logger) (*Session, error) {
	if err := terms.check(); err != nil {
		return nil, err
	}
	session := newSession(terms, log, func(port uint16) (io.WriteCloser, error) { return dial(terms, port) })
	conn, err := session.dial(terms.port())
	if err != nil {
		return nil, fmt.Errorf("BFD: %w", err)
	}
	for _, port := range terms.ports() {
		listener, err := ls.register(session, port)
		if err != nil {
			conn.Close()
			session.unregister()
			return nil, fmt.Errorf("BFD: %w", err)
		}
		session.listeners = append(session.listeners, listener)
	}
	go session.run(conn)
	return session, nil
}

func newSession(t Terms, log *slog.Logger, dial func(port uint16) (io.WriteCloser, error)) *Session {
	return &Session{
		terms: t, log: log, dial: dial, received: make(chan arrival, 16), timers: make(chan Timers, 1), says: make(chan Diagnostic, 1),
		changed: make(chan struct{}, 1), start: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}),
		status: Status{State: Down, Peer: Down, Since: time.Now()}, now: t.Timers,
	}
}

func (s *Session) unregister() {
	for _, l := range s.listeners {
		l.unregister(s)
	}
}

// Begin starts the session, if it has not begun yet.
func (s *Session) Begin() { s.BeginAfter(startDelay) }

// BeginAfter starts the session, if it has not begun yet: it receives for that time before it
// sends. A peer that still has the session of an earlier process up must have sent within it;
// otherwise that session is lost to it.
func (s *Session) BeginAfter(delay time.Duration) {
	s.startOnce.Do(func() {
		s.delay = delay
		close(s.start)
	})
}

// SetDiagnostic has the session report a diagnostic while it is up, from now on and each time that it comes
// up. [ConcatenatedPathDown] asks the peer to use others; [NoDiagnostic] takes that back.
func (s *Session) SetDiagnostic(diagnostic Diagnostic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.says: // which was not read yet
	default:
	}
	s.says <- diagnostic
}

// Heard holds the times at which a session heard its peer, on the clock of package uptime; 0: never. The kernel's
// time of arrival counts, so that a packet is not new because it was read late.
type Heard struct {
	Last      time.Duration // the last packet of the session
	LastUp    time.Duration // the last with which the peer said that it hears this machine
	Detection time.Duration // for how long the session waits for the next
}

// Heard returns the times at which the session heard its peer. They are no change of the [Status].
func (s *Session) Heard() Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// Terms returns the terms that the session was opened with, and the timers that it was set last.
func (s *Session) Terms() Terms {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.terms
	t.Timers = s.now
	return t
}

// SetTimers changes the timers of a session, which stays up: the peer is asked by a poll. Its
// error is [ErrTerms].
func (s *Session) SetTimers(timers Timers) error {
	terms := s.terms
	terms.Timers = timers
	if err := terms.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = timers
	select {
	case <-s.timers: // which were not read yet
	default:
	}
	s.timers <- timers
	return nil
}

// Status returns the state of the session.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Changed receives a value after the [Status] became another one. Changes that come together
// give one value.
func (s *Session) Changed() <-chan struct{} { return s.changed }

// Close ends the session and returns when it has ended. A handOver above 0 asks the peer to
// keep it up for that long, for the process that follows; the peer is waited for until it
// agrees, for a detection time at most, and not longer than ctx allows. Otherwise, and where
// the peer did not agree, the session ends as AdminDown.
func (s *Session) Close(ctx context.Context, handOver time.Duration) {
	s.closeOnce.Do(func() {
		s.last = farewell{ctx, handOver}
		close(s.quit)
	})
	<-s.ended
}

// run owns the detector.
func (s *Session) run(conn io.WriteCloser) {
	defer close(s.ended)
	defer s.unregister()
	running := &loop{Session: s, conn: conn, port: s.terms.port()}
	defer func() { running.conn.Close() }()
	select {
	case <-s.start:
	case <-s.quit:
		return
	}
	for len(s.received) > 0 {
		<-s.received // it arrived before the session began
	}
	running.detector, running.nextSend = newDetector(s.terms.Timers, s.terms.discriminator()), time.Now().Add(s.delay)
	running.work()
}

// publish sets the status and reports the event that led to it. It never waits for a reader.
func (s *Session) publish(detector *detector, event Event) {
	now := time.Now()
	s.mu.Lock()
	before := s.status
	if event.isLoss() {
		s.status.Losses++
		s.status.LastLoss, s.status.LastUp = event, now.Sub(before.Since)
	}
	if s.status.State != detector.state {
		s.status.State, s.status.Since = detector.state, now
	}
	s.status.Diagnostic, s.status.Peer, s.status.Says = detector.diagnostic, detector.remoteState, detector.remoteDiag
	same := s.status == before
	s.mu.Unlock()
	s.report(detector, event)
	if !same {
		wake.Up(s.changed)
	}
}

func (s *Session) report(d *detector, e Event) {
	switch e {
	case CameUp:
		s.log.Info("established BFD")
	case TimedOut, NeighborDown:
		s.log.Warn("lost BFD with the peer", "diagnostic", d.diagnostic.String())
	case EndedByPeer:
		s.log.Info("saw the peer end BFD")
	case RestartedByPeer:
		s.log.Info("saw the peer begin BFD anew")
	case Unchanged:
	}
}
