package bgp

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"

	"plinth.dev/plinth/inventory"
)

// GoBGP's own BFD is not used: with a server for each session, all but one of them
// would receive nothing on the shared UDP port, and in v4.8.0 a reset that it asks for
// while the session is down is carried out on the next one. Its codec is used.

// slowInterval is the interval of packets while a session is not up (RFC 5880, section 6.8.3:
// at least one second).
const slowInterval = time.Second

// detector is the state of one BFD session (RFC 5880, asynchronous mode, no
// authentication, no echo). It has no clock and no socket.
type detector struct {
	profile    inventory.BFDProfile
	local      uint32 // discriminators
	remote     uint32
	state      bfd.StateType
	diagnostic bfd.DiagnosticType
	poll       bool // new intervals wait for the router's confirmation
	tx         time.Duration
	remoteTx   time.Duration // the router wants to send at least so far apart
	remoteRx   time.Duration // the router wants packets at least so far apart
	remoteMult uint8
	lastPacket time.Time
	unsent     bool // no packet was sent yet
}

func newDetector(p inventory.BFDProfile, local uint32) *detector {
	return &detector{
		profile: p, local: local, state: bfd.StateDown,
		tx: max(slowInterval, p.Interval), remoteRx: time.Microsecond, unsent: true,
	}
}

// discriminator is the number by which this machine knows a session. The next
// process on the machine comes to the same one, so that it can go on with a session
// that the router has not ended. From outside the machine it cannot be guessed.
func discriminator(t bfdTerms) uint32 {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return rand.Uint32N(1<<32-1) + 1
	}
	h := fnv.New64a()
	for _, part := range [][]byte{boot, t.local.AsSlice(), t.router.AsSlice(), binary.BigEndian.AppendUint16(nil, t.port())} {
		_, _ = h.Write(part)
	}
	return max(uint32(h.Sum64()>>32)^uint32(h.Sum64()), 1)
}

// bfdEvent is what a packet, or the lack of one, did to a session.
type bfdEvent int

const (
	bfdUnchanged bfdEvent = iota
	bfdCameUp
	bfdTimedOut     // nothing arrived from the router for the detection time
	bfdNeighborDown // the router received nothing from this machine
	bfdAdminDown    // the router's operator ended BFD: says nothing about the path (RFC 5882, section 4.2)
	bfdRestarted    // the router has a new session in place of the old: says nothing about the path either
)

// receive takes a packet in (RFC 5880, section 6.8.6). reply says that it must be
// answered at once.
func (d *detector) receive(h bfd.BFDHeader, now time.Time) (e bfdEvent, reply bool) {
	if !d.accepts(h) || d.state == bfd.StateAdminDown {
		return bfdUnchanged, false
	}
	// FRR sets its session up anew when BGP comes up. A router that lost the path keeps
	// its discriminator, and reports itself down.
	anew := d.state == bfd.StateUp && h.YourDiscriminator == 0 && h.MyDiscriminator != d.remote
	d.remote, d.lastPacket = h.MyDiscriminator, now
	d.remoteRx = time.Duration(h.RequiredMinRxInterval) * time.Microsecond
	d.remoteTx = time.Duration(h.DesiredMinTxInterval) * time.Microsecond
	d.remoteMult = h.DetectTimeMultiplier
	if h.Final {
		d.poll = false
	}
	if d.unsent && h.State == bfd.StateUp && h.YourDiscriminator == d.local {
		return d.resume(), h.Poll
	}
	if anew && h.State == bfd.StateDown {
		e = d.goDown(bfd.DiagnosticNeighborSignaledSessionDown, bfdRestarted)
		d.transition(h.State)
		return e, h.Poll
	}
	return d.transition(h.State), h.Poll
}

// accepts reports whether a packet is valid and of this session.
func (d *detector) accepts(h bfd.BFDHeader) bool {
	switch {
	case h.Version != 1, h.DetectTimeMultiplier == 0, h.MyDiscriminator == 0, h.Poll && h.Final:
		return false
	case h.YourDiscriminator == 0:
		return h.State == bfd.StateDown || h.State == bfd.StateAdminDown
	}
	return h.YourDiscriminator == d.local
}

// transition is the state machine (RFC 5880, section 6.8.6).
func (d *detector) transition(remote bfd.StateType) bfdEvent {
	switch {
	case remote == bfd.StateAdminDown:
		return d.goDown(bfd.DiagnosticNeighborSignaledSessionDown, bfdAdminDown)
	case d.state == bfd.StateDown && remote == bfd.StateDown:
		d.state = bfd.StateInit
	case d.state == bfd.StateDown && remote == bfd.StateInit, d.state == bfd.StateInit && remote >= bfd.StateInit:
		d.state, d.diagnostic = bfd.StateUp, bfd.DiagnosticNoDiagnostic
		d.tx, d.poll = d.profile.Interval, true
		return bfdCameUp
	case d.state == bfd.StateUp && remote == bfd.StateDown:
		return d.goDown(bfd.DiagnosticNeighborSignaledSessionDown, bfdNeighborDown)
	}
	return bfdUnchanged
}

// resume goes on with the session of an earlier process, which the router has up.
func (d *detector) resume() bfdEvent {
	d.unsent, d.state, d.diagnostic = false, bfd.StateUp, bfd.DiagnosticNoDiagnostic
	d.tx, d.poll = d.profile.Interval, true
	return bfdCameUp
}

// slowDown makes the router wait that long for the next packet, once it has
// confirmed the interval: for the process that follows.
func (d *detector) slowDown(silence time.Duration) {
	d.tx, d.poll = silence/time.Duration(d.profile.Multiplier), true
}

// timeOut forgets the router after the detection time without a packet, in any state
// (RFC 5880, section 6.8.1): one that comes back discards what bears the discriminator of
// its last session, and a passive one sends nothing before it has received something. A
// session that was not down ends.
func (d *detector) timeOut() bfdEvent {
	d.remote, d.remoteRx = 0, time.Microsecond
	if d.state == bfd.StateDown {
		return bfdUnchanged
	}
	return d.goDown(bfd.DiagnosticControlDetectionTimeExpired, bfdTimedOut)
}

func (d *detector) goDown(why bfd.DiagnosticType, e bfdEvent) bfdEvent {
	was := d.state
	d.state, d.diagnostic, d.poll, d.tx = bfd.StateDown, why, false, max(slowInterval, d.profile.Interval)
	if was == bfd.StateUp {
		return e
	}
	return bfdUnchanged
}

// detects reports whether the detection time runs: since a packet of the router's, in
// whatever state that left the session.
func (d *detector) detects() bool { return d.remote != 0 }

// detectionTime is the detection time (RFC 5880, section 6.8.4).
func (d *detector) detectionTime() time.Duration {
	return time.Duration(d.remoteMult) * max(d.profile.Interval, d.remoteTx)
}

// untilNext is the time until the next packet: 75 to 100 % of the interval, at most 90 %
// where one lost packet is one too many (RFC 5880, section 6.8.7).
func (d *detector) untilNext() time.Duration {
	interval, spread := d.interval(), 0.25
	if d.profile.Multiplier == 1 {
		spread = 0.15
	}
	return time.Duration(float64(interval) * (0.75 + spread*rand.Float64()))
}

// interval is how far apart packets are sent: the longer one of what both ends ask for.
func (d *detector) interval() time.Duration { return max(d.tx, d.remoteRx) }

// remoteWantsPackets reports whether the router wants packets at all: an interval of 0 means none.
func (d *detector) remoteWantsPackets() bool { return d.remoteRx > 0 }

// packet is the next packet to send; final answers a poll.
func (d *detector) packet(final bool) *bfd.BFDHeader {
	d.unsent = false
	return &bfd.BFDHeader{
		Version: 1, Diagnostic: d.diagnostic, State: d.state, Poll: d.poll && !final, Final: final,
		DetectTimeMultiplier: d.profile.Multiplier, MyDiscriminator: d.local, YourDiscriminator: d.remote,
		DesiredMinTxInterval:  uint32(d.tx / time.Microsecond),
		RequiredMinRxInterval: uint32(d.profile.Interval / time.Microsecond),
	}
}
