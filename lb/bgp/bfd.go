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
// would hear nothing on the shared UDP port, and in v4.8.0 a reset that it asks for
// while the session is down is carried out on the next one. Its codec is used.

// idle is the interval of packets while a session is not up (RFC 5880, section 6.8.3:
// at least one second).
const idle = time.Second

// detector is the state of one BFD session (RFC 5880, asynchronous mode, no
// authentication, no echo). It has no clock and no socket.
type detector struct {
	profile    inventory.BFDProfile
	local      uint32 // discriminators
	remote     uint32
	state      bfd.StateType
	theirs     bfd.StateType // what the router said last
	diagnostic bfd.DiagnosticType
	poll       bool // new intervals wait for the router's confirmation
	tx         time.Duration
	remoteTx   time.Duration // the router wants to send at least so far apart
	remoteRx   time.Duration // the router wants packets at least so far apart
	remoteMult uint8
	heard      time.Time
	fresh      bool // it has said nothing yet
}

func newDetector(p inventory.BFDProfile, local uint32) *detector {
	return &detector{
		profile: p, local: local, state: bfd.StateDown, theirs: bfd.StateDown,
		tx: max(idle, p.Interval), remoteRx: time.Microsecond, fresh: true,
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

// change is what a packet or its absence did to a session.
type change int

const (
	unchanged change = iota
	cameUp
	pathLost   // the router was not heard
	toldDown   // the router did not hear us
	shutRemote // the router's operator ended BFD: no word on the path (RFC 5882, section 4.2)
	begunAgain // the router has a new session in place of the old: no word on the path either
)

// hear takes in a packet (RFC 5880, section 6.8.6). Reply is to be sent at once.
func (d *detector) hear(h bfd.BFDHeader, now time.Time) (c change, reply bool) {
	if !d.ours(h) || d.state == bfd.StateAdminDown {
		return unchanged, false
	}
	// FRR sets its session up anew when BGP comes up. A router that lost the path keeps
	// its discriminator, and says that it is down.
	anew := d.state == bfd.StateUp && h.YourDiscriminator == 0 && h.MyDiscriminator != d.remote
	d.remote, d.theirs, d.heard = h.MyDiscriminator, h.State, now
	d.remoteRx = time.Duration(h.RequiredMinRxInterval) * time.Microsecond
	d.remoteTx = time.Duration(h.DesiredMinTxInterval) * time.Microsecond
	d.remoteMult = h.DetectTimeMultiplier
	if h.Final {
		d.poll = false
	}
	if d.fresh && h.State == bfd.StateUp && h.YourDiscriminator == d.local {
		return d.resume(), h.Poll
	}
	if anew && h.State == bfd.StateDown {
		c = d.fall(bfd.DiagnosticNeighborSignaledSessionDown, begunAgain)
		d.step(h.State)
		return c, h.Poll
	}
	return d.step(h.State), h.Poll
}

// ours reports whether a packet is valid and of this session.
func (d *detector) ours(h bfd.BFDHeader) bool {
	switch {
	case h.Version != 1, h.DetectTimeMultiplier == 0, h.MyDiscriminator == 0, h.Poll && h.Final:
		return false
	case h.YourDiscriminator == 0:
		return h.State == bfd.StateDown || h.State == bfd.StateAdminDown
	}
	return h.YourDiscriminator == d.local
}

// step is the state machine (RFC 5880, section 6.8.6).
func (d *detector) step(remote bfd.StateType) change {
	switch {
	case remote == bfd.StateAdminDown:
		return d.fall(bfd.DiagnosticNeighborSignaledSessionDown, shutRemote)
	case d.state == bfd.StateDown && remote == bfd.StateDown:
		d.state = bfd.StateInit
	case d.state == bfd.StateDown && remote == bfd.StateInit, d.state == bfd.StateInit && remote >= bfd.StateInit:
		d.state, d.diagnostic = bfd.StateUp, bfd.DiagnosticNoDiagnostic
		d.tx, d.poll = d.profile.Interval, true
		return cameUp
	case d.state == bfd.StateUp && remote == bfd.StateDown:
		return d.fall(bfd.DiagnosticNeighborSignaledSessionDown, toldDown)
	}
	return unchanged
}

// resume goes on with the session of an earlier process, which the router has up.
func (d *detector) resume() change {
	d.fresh, d.state, d.diagnostic = false, bfd.StateUp, bfd.DiagnosticNoDiagnostic
	d.tx, d.poll = d.profile.Interval, true
	return cameUp
}

// slowDown has the router wait for the next packet for so long, once it has
// confirmed that: for the process that follows.
func (d *detector) slowDown(silence time.Duration) {
	d.tx, d.poll = silence/time.Duration(d.profile.Multiplier), true
}

// silent ends a session that was not heard of for the detection time.
func (d *detector) silent() change {
	d.remote = 0 // RFC 5880, section 6.8.1
	return d.fall(bfd.DiagnosticControlDetectionTimeExpired, pathLost)
}

func (d *detector) fall(why bfd.DiagnosticType, c change) change {
	was := d.state
	d.state, d.diagnostic, d.poll, d.tx = bfd.StateDown, why, false, max(idle, d.profile.Interval)
	if was == bfd.StateUp {
		return c
	}
	return unchanged
}

// listening reports whether silence means anything.
func (d *detector) listening() bool { return d.state == bfd.StateInit || d.state == bfd.StateUp }

// patience is the detection time (RFC 5880, section 6.8.4).
func (d *detector) patience() time.Duration {
	return time.Duration(d.remoteMult) * max(d.profile.Interval, d.remoteTx)
}

// pause is the time until the next packet: 75 to 100 % of the interval, at most 90 %
// where one lost packet is one too many (RFC 5880, section 6.8.7).
func (d *detector) pause() time.Duration {
	interval, spread := d.interval(), 0.25
	if d.profile.Multiplier == 1 {
		spread = 0.15
	}
	return time.Duration(float64(interval) * (0.75 + spread*rand.Float64()))
}

// interval is how far apart packets are sent: as seldom as either end asks for.
func (d *detector) interval() time.Duration { return max(d.tx, d.remoteRx) }

// wanted reports whether the router wants packets at all: an interval of 0 means none.
func (d *detector) wanted() bool { return d.remoteRx > 0 }

// packet is what is sent; final answers a poll.
func (d *detector) packet(final bool) *bfd.BFDHeader {
	d.fresh = false
	return &bfd.BFDHeader{
		Version: 1, Diagnostic: d.diagnostic, State: d.state, Poll: d.poll && !final, Final: final,
		DetectTimeMultiplier: d.profile.Multiplier, MyDiscriminator: d.local, YourDiscriminator: d.remote,
		DesiredMinTxInterval:  uint32(d.tx / time.Microsecond),
		RequiredMinRxInterval: uint32(d.profile.Interval / time.Microsecond),
	}
}
