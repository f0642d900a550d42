package bfd

import (
	"io"
	"time"
)

// loop is a session at work. One goroutine, that of run, owns everything in it.
type loop struct {
	*Session
	*detector
	conn     io.WriteCloser
	port     uint16    // that conn sends to
	nextSend time.Time // when to send the next packet
	deadline time.Time // the session times out after it; zero: it does not
	extended bool      // the deadline
}

// work sends and receives until the session is closed.
func (l *loop) work() {
	timer := time.NewTimer(l.delay)
	defer timer.Stop()
	for {
		select {
		case a := <-l.received:
			l.onPacket(a, time.Now())
		case t := <-l.timers:
			l.setTimers(t)
			if !l.unsent {
				l.nextSend = time.Now()
			}
		case d := <-l.says:
			l.upDiagnostic = d
			if l.state == Up && !l.unsent {
				l.nextSend = time.Now()
			}
		case <-timer.C:
			l.checkDeadline(time.Now())
		case <-l.quit:
			l.end()
			return
		}
		timer.Reset(max(time.Until(l.sendDue(time.Now())), 0) + time.Microsecond)
	}
}

// onPacket takes a packet in. One that is not of this session changes nothing.
func (l *loop) onPacket(arrival arrival, now time.Time) {
	if !l.accepts(arrival.packet) {
		return
	}
	state, diagnostic, interval := l.state, l.diagnostic, l.interval()
	l.extended = false
	event := l.receive(arrival.packet, now)
	l.note(arrival)
	if state != Up {
		l.sendTo(arrival.port)
	}
	if arrival.poll {
		l.send(true)
	}
	told := state == l.state && diagnostic == l.diagnostic || l.unsent
	if event == CameUp || l.interval() < interval || !told {
		l.nextSend = now // the peer counts on the shorter interval from now on, or has to learn the state
	}
	l.publish(l.detector, event)
}

// note records the time at which the peer was heard.
func (l *loop) note(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard.Last, l.heard.Detection = a.at, l.detectionTime()
	if l.state == Up && a.state == Up && a.yours == l.local {
		l.heard.LastUp = a.at
	}
}

// sendTo moves the session to the port that the peer itself sends to.
func (l *loop) sendTo(port uint16) {
	if port == l.port {
		return
	}
	conn, err := l.dial(port)
	if err != nil {
		return // BFD itself notices if nothing arrives
	}
	l.conn.Close()
	l.conn, l.port = conn, port
}

// checkDeadline ends the session after the detection time. A machine that is starved
// of CPU wakes up late, and reads what the peer sent meanwhile only after this: the
// deadline is extended once.
func (l *loop) checkDeadline(now time.Time) {
	if l.deadline.IsZero() || !now.After(l.deadline) || len(l.received) > 0 {
		return
	}
	if extra := l.Interval; !l.extended && now.Sub(l.deadline) > extra/4 {
		l.extended, l.lastPacket = true, now.Add(extra-l.detectionTime())
		return
	}
	e := l.timeOut()
	if e != Unchanged {
		l.nextSend = now
	}
	l.publish(l.detector, e)
}

// sendDue sends what is due, and returns when to look again.
func (l *loop) sendDue(now time.Time) time.Time {
	if !now.Before(l.nextSend) {
		if l.sendsPeriodically() {
			l.send(false)
		}
		l.nextSend = now.Add(l.untilNext())
	}
	l.deadline = time.Time{}
	if !l.detects() {
		return l.nextSend
	}
	l.deadline = l.lastPacket.Add(l.detectionTime())
	if l.deadline.Before(l.nextSend) {
		return l.deadline
	}
	return l.nextSend
}

// send sends the state as it is. An error needs no answer: BFD itself notices if
// nothing arrives.
func (l *loop) send(final bool) { _, _ = l.conn.Write(l.next(final).encode()) }

// adminDownPackets is the number of packets that end a session: any of them may get lost.
const adminDownPackets = 3

// end hands the session over to the next process if it can, or shuts it down.
func (l *loop) end() {
	if l.last.handOver > 0 && l.state == Up && l.handOver() {
		return
	}
	l.shutDown()
	l.publish(l.detector, Unchanged)
	for range adminDownPackets {
		l.send(false)
	}
}

// handOver makes the peer wait for the process that follows for as long as it would
// keep the routes, and reports whether it will. The peer learns a new interval by a
// poll that it confirms (RFC 5880, section 6.8.3).
func (l *loop) handOver() bool {
	l.slowDown(l.last.handOver)
	for range l.Multiplier {
		l.send(false)
		again := time.After(l.Interval)
		for waiting := true; waiting; {
			select {
			case a := <-l.received:
				if !l.accepts(a.packet) {
					continue
				}
				l.receive(a.packet, time.Now())
				if a.poll {
					l.send(true)
				}
				if !l.poll || l.state != Up {
					return l.state == Up
				}
			case <-again:
				waiting = false
			case <-l.last.ctx.Done():
				return false
			}
		}
	}
	return false
}
