package bfd

import (
	"encoding/binary"
	"fmt"
	"time"
)

// State is the state of a session (RFC 5880, section 4.1).
type State uint8

// The states. A session is AdminDown when it was ended in order: this says nothing about the
// path (RFC 5882, section 4.2).
const (
	AdminDown State = iota
	Down
	Init
	Up
)

func (s State) String() string { return [...]string{"admin down", "down", "init", "up"}[s&3] }

// Diagnostic is the reason why a session is not up (RFC 5880, section 4.1).
type Diagnostic uint8

// The diagnostics that a session of this package sends. A peer may send others.
const (
	NoDiagnostic         Diagnostic = 0
	DetectionTimeExpired Diagnostic = 1
	NeighborSignaledDown Diagnostic = 3
	ConcatenatedPathDown Diagnostic = 6 // said by a session that is up: what lies behind this machine is not to be used (section 6.8.17)
	AdministrativelyDown Diagnostic = 7
)

func (d Diagnostic) String() string {
	names := [...]string{
		"none", "detection time expired", "echo failed", "the neighbor signaled that it is down", "forwarding plane reset",
		"path down", "concatenated path down", "administratively down", "reverse concatenated path down",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("reserved (%d)", uint8(d))
}

// packet is a control packet (RFC 5880, section 4.1), without the fields that no session of
// this package uses: authentication, echo, control plane independent.
type packet struct {
	diagnostic          Diagnostic
	state               State
	poll, final, demand bool
	multiplier          uint8
	mine, yours         uint32        // discriminators
	minTx, minRx        time.Duration // the sender's Desired Min TX and Required Min RX Interval
}

const (
	version       = 1
	packetSize    = 24
	pollBit       = 1 << 5
	finalBit      = 1 << 4
	authenticated = 1 << 2
	demandBit     = 1 << 1
	multipoint    = 1 << 0
)

// parse reads a control packet, and refuses what RFC 5880, section 6.8.6, has every session
// discard, and what is authenticated. What follows its length is padding (RFC 9764).
func parse(data []byte) (packet, bool) {
	if len(data) < packetSize || data[0]>>5 != version || data[1]&(authenticated|multipoint) != 0 {
		return packet{}, false
	}
	if length := int(data[3]); length < packetSize || length > len(data) {
		return packet{}, false
	}
	micro := func(at int) time.Duration {
		return time.Duration(binary.BigEndian.Uint32(data[at:])) * time.Microsecond
	}
	parsed := packet{
		diagnostic: Diagnostic(data[0] & 0x1f), state: State(data[1] >> 6),
		poll: data[1]&pollBit != 0, final: data[1]&finalBit != 0, demand: data[1]&demandBit != 0, multiplier: data[2],
		mine: binary.BigEndian.Uint32(data[4:]), yours: binary.BigEndian.Uint32(data[8:]), minTx: micro(12), minRx: micro(16),
	}
	firstWord := parsed.state == Down || parsed.state == AdminDown // of a peer that does not know us yet
	return parsed, parsed.multiplier > 0 && parsed.mine != 0 && !(parsed.poll && parsed.final) && (parsed.yours != 0 || firstWord)
}

// encode writes a control packet.
func (p packet) encode() []byte {
	data := make([]byte, packetSize)
	data[0] = version<<5 | byte(p.diagnostic)&0x1f
	data[1] = byte(p.state) << 6
	for _, f := range []struct {
		set bool
		bit byte
	}{{p.poll, pollBit}, {p.final, finalBit}, {p.demand, demandBit}} {
		if f.set {
			data[1] |= f.bit
		}
	}
	data[2], data[3] = p.multiplier, packetSize
	binary.BigEndian.PutUint32(data[4:], p.mine)
	binary.BigEndian.PutUint32(data[8:], p.yours)
	binary.BigEndian.PutUint32(data[12:], uint32(p.minTx/time.Microsecond))
	binary.BigEndian.PutUint32(data[16:], uint32(p.minRx/time.Microsecond))
	return data
}
