package mesh

import (
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
)

const (
	// slowInterval is the interval between packets while a session is not up (RFC 5880, section
	// 6.8.3).
	slowInterval = time.Second
	bringUp      = 3 * slowInterval       // a peer that is heard comes up within it
	askLimit     = 150 * time.Millisecond // an answer is waited for so long after the detection time
	askAgain     = time.Second            // between the asks of a machine that is holding
)

// facts holds the state of a peer's BFD session.
type facts struct {
	bfd.Status
	bfd.Heard
}

// peer turns facts into a standing. Times are on the clock of package uptime.
type peer struct {
	detection   time.Duration // the usual one
	restartTime time.Duration
	opened      time.Duration // when the session began

	standing advertise.Standing
	losses   uint64        // that were taken in
	lostAt   time.Duration // 0: the session is up, or it is known what became of the machine
	holdEnds time.Duration // 0: when the session times out
	asked    time.Duration // when the last ask began
	asking   bool          // no answer yet
	answer   answer        // to the last ask
}

// answer is the result of the last ask.
type answer int

const (
	noAnswerYet answer = iota
	answers
	silent
)

// observe updates the peer with the state of BFD at a time.
func (p *peer) observe(now time.Duration, facts facts) {
	lost := facts.Losses > p.losses
	p.losses = facts.Losses
	switch {
	case facts.State == bfd.Up && !p.paused(now, facts):
		p.cameUp(now, facts)
	case facts.State == bfd.Up: // a hand-over
		p.observeHandOver(now, facts)
	case facts.Peer == bfd.AdminDown:
		p.end(advertise.Down)
	case p.standing == advertise.Unheard:
		p.observeNewborn(now, facts)
	case lost && facts.LastLoss == bfd.TimedOut && p.holdEnds == 0 && p.standing != advertise.Holding:
		p.lostAt = now
		p.decide(now)
	case p.lostAt != 0:
		p.decide(now)
	case p.standing == advertise.Holding && p.holdEnds != 0:
		p.hold(now)
	default:
		p.end(advertise.Down)
	}
}

// paused reports whether a peer whose session is up has stopped sending, as it said it would.
func (p *peer) paused(now time.Duration, f facts) bool {
	return f.Detection > 2*p.detection && now-f.Last > p.detection
}

func (p *peer) cameUp(now time.Duration, facts facts) {
	standing := advertise.Up
	if facts.Says == bfd.ConcatenatedPathDown {
		standing = advertise.Leaving
	}
	p.end(standing)
	if now-facts.Last <= p.detection/2 {
		p.answer = noAnswerYet // an answer of before it was heard is none for the next silence
	}
}

// end sets a standing for which nothing is waited for any more.
func (p *peer) end(s advertise.Standing) { p.standing, p.lostAt, p.holdEnds = s, 0, 0 }

// observeHandOver: a peer whose kernel fell silent meanwhile stays Down until it is heard.
func (p *peer) observeHandOver(_ time.Duration, _ facts) {
	if p.answer == silent {
		p.end(advertise.Down)
	} else if p.standing != advertise.Down {
		p.end(advertise.Holding)
	}
}

func (p *peer) observeNewborn(now time.Duration, f facts) {
	limit := p.opened + 2*p.detection + slowInterval
	if f.Last != 0 {
		limit += bringUp
	}
	if now >= limit {
		p.end(advertise.Down)
	}
}

// decide sets the standing of a machine whose session timed out, once it is known.
func (p *peer) decide(now time.Duration) {
	switch {
	case p.answer == answers:
		p.standing, p.holdEnds, p.lostAt = advertise.Holding, p.lostAt+p.restartTime, 0
		p.hold(now)
	case p.answer == silent, now >= p.lostAt+askLimit:
		p.end(advertise.Down)
	}
}

func (p *peer) hold(now time.Duration) {
	if p.answer == silent || now >= p.holdEnds {
		p.end(advertise.Down)
	}
}

// wantsAsk reports whether the machine's kernel is to be asked now.
func (p *peer) wantsAsk(now time.Duration, facts facts) bool {
	switch {
	case p.asking:
		return false
	case p.standing == advertise.Holding:
		return now-p.asked >= askAgain
	case p.lostAt != 0:
		return p.answer == noAnswerYet
	}
	quiet := now-facts.Last >= p.detection/2
	return facts.State == bfd.Up && quiet && p.standing != advertise.Down && p.asked <= facts.Last
}

// ask records that an ask begins.
func (p *peer) ask(now time.Duration) { p.asked, p.asking, p.answer = now, true, p.kept() }

// kept returns the answer that counts while the next one is awaited: a machine that is holding goes on.
func (p *peer) kept() answer {
	if p.standing == advertise.Holding {
		return p.answer
	}
	return noAnswerYet
}

// answered records the end of an ask.
func (p *peer) answered(yes bool) {
	p.asking, p.answer = false, silent
	if yes {
		p.answer = answers
	}
}
