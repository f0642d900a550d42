package bfd

import (
	"math/rand/v2"
	"time"
)

// slowInterval is the least interval of packets while a session is not up (RFC 5880, section
// 6.8.3).
const slowInterval = time.Second

// detector is the state of one session (RFC 5880, section 6.8.1). It has no clock and no
// socket.
type detector struct {
	Timers
	local, remote uint32 // discriminators
	state         State
	diagnostic    Diagnostic
	upDiagnostic  Diagnostic    // said while the session is up
	poll          bool          // new intervals wait for the peer's confirmation
	tx            time.Duration // as told to the peer; to it, Interval is the other
	agreedTx      time.Duration // in force, until the peer has confirmed a longer one
	agreedRx      time.Duration // in force, until the peer has confirmed a shorter one
	lastPacket    time.Time
	unsent        bool // no packet was sent yet

	// The fields of the peer's last packet.
	remoteState  State
	remoteDiag   Diagnostic
	remoteDemand bool
	remoteTx     time.Duration // it wants to send at least so far apart
	remoteRx     time.Duration // it wants packets at least so far apart; 0: none
	remoteMult   uint8
}

func newDetector(t Timers, local uint32) *detector {
	d := &detector{Timers: t, local: local, state: Down, unsent: true}
	d.setTx(max(slowInterval, t.Interval))
	d.forget()
	return d
}

// forget drops what the peer said.
func (d *detector) forget() {
	d.remote, d.remoteState, d.remoteDiag, d.remoteDemand, d.remoteRx = 0, Down, NoDiagnostic, false, time.Microsecond
}

// Event is the effect of a packet, or of the lack of one, on a session.
type Event int

// The events. TimedOut and NeighborDown are the two in which the path was lost.
const (
	Unchanged       Event = iota
	CameUp                // the session is up
	TimedOut              // nothing arrived from the peer for the detection time
	NeighborDown          // the peer received nothing from this machine
	EndedByPeer           // the peer's operator ended the session: says nothing about the path (RFC 5882, section 4.2)
	RestartedByPeer       // the peer has a new session in place of the old: says nothing about the path either
)

func (e Event) String() string {
	return [...]string{"unchanged", "came up", "nothing arrived for the detection time", "the peer receives nothing", "ended by the peer", "begun anew by the peer"}[e]
}

func (e Event) isLoss() bool { return e == TimedOut || e == NeighborDown }

// accepts reports whether a valid packet is of this session.
func (d *detector) accepts(p packet) bool {
	return d.state != AdminDown && (p.yours == 0 || p.yours == d.local)
}

// receive observes a packet that the session accepts (RFC 5880, section 6.8.6).
func (d *detector) receive(packet packet, now time.Time) Event {
	// FRR sets its session up anew when BGP comes up. A peer that lost the path keeps its
	// discriminator, and reports itself down.
	anew := d.state == Up && packet.yours == 0 && packet.mine != d.remote && packet.state == Down
	d.remote, d.lastPacket = packet.mine, now
	d.remoteDiag = packet.diagnostic
	d.remoteState, d.remoteDemand, d.remoteTx, d.remoteRx, d.remoteMult = packet.state, packet.demand, packet.minTx, packet.minRx, packet.multiplier
	if packet.final && d.poll {
		d.poll, d.agreedTx, d.agreedRx = false, d.tx, d.Interval
	}
	if d.unsent && packet.state == Up && packet.yours == d.local {
		return d.goUp() // the session of an earlier process, which the peer still has up
	}
	if anew {
		e := d.goDown(NeighborSignaledDown, RestartedByPeer)
		d.transition(packet.state)
		return e
	}
	return d.transition(packet.state)
}

// transition is the state machine (RFC 5880, section 6.8.6).
func (d *detector) transition(remote State) Event {
	switch {
	case remote == AdminDown:
		return d.goDown(NeighborSignaledDown, EndedByPeer)
	case d.state == Down && remote == Down:
		d.state = Init
	case d.state == Down && remote == Init, d.state == Init && remote >= Init:
		return d.goUp()
	case d.state == Up && remote == Down:
		return d.goDown(NeighborSignaledDown, NeighborDown)
	}
	return Unchanged
}

// goUp sends the peer the interval of a session that is up by a poll (RFC 5880, section
// 6.8.3).
func (d *detector) goUp() Event {
	d.unsent, d.state, d.diagnostic, d.poll = false, Up, NoDiagnostic, true
	d.setTx(d.Interval)
	return CameUp
}

// goDown takes a session down. A peer that ended the session leaves a session that is down
// already as it is.
func (d *detector) goDown(why Diagnostic, e Event) Event {
	was := d.state
	d.state, d.diagnostic, d.poll = Down, why, false
	d.setTx(max(slowInterval, d.Interval))
	if was == Up {
		return e
	}
	return Unchanged
}

// setTx sends at another interval from now on, and expects packets at that of the timers.
func (d *detector) setTx(interval time.Duration) {
	d.tx, d.agreedTx, d.agreedRx = interval, interval, d.Interval
}

// setTimers changes the timers. While the session is up the peer is asked by a poll, and
// what it may not know yet is not counted on: packets go on at the shorter interval, and are
// waited for by the longer one (RFC 5880, section 6.8.3).
func (d *detector) setTimers(timers Timers) {
	d.Timers = timers
	if d.state != Up {
		d.setTx(max(slowInterval, timers.Interval))
		return
	}
	d.tx, d.poll = timers.Interval, true
	d.agreedTx, d.agreedRx = min(d.agreedTx, d.tx), max(d.agreedRx, timers.Interval)
}

// timeOut forgets the peer after the detection time without a packet, in any state (RFC 5880,
// section 6.8.1): one that comes back discards what bears the discriminator of its last
// session, and a passive one sends nothing before it has received something. A session that
// was not down ends.
func (d *detector) timeOut() Event {
	d.forget()
	if d.state == Down {
		return Unchanged
	}
	return d.goDown(DetectionTimeExpired, TimedOut)
}

// shutDown ends the session in order: for the peer the path is not lost, and it need not act
// on it (RFC 5882, section 4.2).
func (d *detector) shutDown() {
	d.state, d.diagnostic, d.poll = AdminDown, AdministrativelyDown, false
}

// slowDown makes the peer wait that long for the next packet, once it has confirmed the
// interval: for the process that follows.
func (d *detector) slowDown(silence time.Duration) {
	d.tx, d.poll = silence/time.Duration(d.Multiplier), true
}

// detects reports whether the detection time runs: since a packet of the peer's, in whatever
// state that left the session.
func (d *detector) detects() bool { return d.remote != 0 }

// detectionTime is the detection time (RFC 5880, section 6.8.4).
func (d *detector) detectionTime() time.Duration {
	return time.Duration(d.remoteMult) * max(d.agreedRx, d.remoteTx)
}

// interval returns the interval between packets that are sent: the longer one of those that both ends ask for (RFC
// 5880, section 6.8.7).
func (d *detector) interval() time.Duration { return max(d.agreedTx, d.remoteRx) }

// untilNext is the time until the next packet: 75 to 100 % of the interval, at most 90 %
// where one lost packet is one too many (RFC 5880, section 6.8.7).
func (d *detector) untilNext() time.Duration {
	spread := 0.25
	if d.Multiplier == 1 {
		spread = 0.15
	}
	return time.Duration(float64(d.interval()) * (0.75 + spread*rand.Float64()))
}

// sendsPeriodically reports whether the peer wants packets unasked: not with an interval of 0,
// and not in demand mode once both ends are up, but for the packets of a poll (RFC 5880,
// sections 6.6 and 6.8.7).
func (d *detector) sendsPeriodically() bool {
	demanded := d.remoteDemand && d.state == Up && d.remoteState == Up
	return d.remoteRx > 0 && (!demanded || d.poll)
}

// next is the next packet to send; final answers a poll.
func (d *detector) next(final bool) packet {
	d.unsent = false
	diagnostic := d.diagnostic
	if d.state == Up {
		diagnostic = d.upDiagnostic
	}
	return packet{
		diagnostic: diagnostic, state: d.state, poll: d.poll && !final, final: final, multiplier: d.Multiplier,
		mine: d.local, yours: d.remote, minTx: d.tx, minRx: d.Interval,
	}
}
