package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"
)

const (
	port         = 3784 // RFC 5881, section 4
	multihopPort = 4784 // RFC 5883, section 5
	// maxTTL is the TTL of a packet that no router has forwarded (RFC 5881, section 5).
	maxTTL = 255
)

// Timers are the timers of a session, the same in both directions.
type Timers struct {
	Interval   time.Duration // between packets while the session is up
	Multiplier uint8         // the peer waits for so many of them
}

// Terms are the settings of a session: addresses, hops and timers. They compare with ==.
type Terms struct {
	Local, Remote netip.Addr // of one family; link-local ones with a zone
	Multihop      bool       // the peer is further than one hop away (RFC 5883)
	// MinTTL is the least TTL of the peer's packets over several hops; 0: any, and any host that
	// can send with the peer's address can end the session. Over one hop it is 255.
	MinTTL uint8
	Timers
}

// ErrTerms is the error of terms that cannot work.
var ErrTerms = errors.New("the BFD session cannot be set up")

func (t Terms) check() error {
	switch {
	case !t.Local.IsValid():
		return fmt.Errorf("%w: it has no address of this machine", ErrTerms)
	case t.Local.Is4() != t.Remote.Is4():
		return fmt.Errorf("%w: %v and %v are not of one family", ErrTerms, t.Local, t.Remote)
	case t.Interval <= 0 || t.Multiplier == 0:
		return fmt.Errorf("%w: an interval of %v and a multiplier of %d, where both must be above 0", ErrTerms, t.Interval, t.Multiplier)
	}
	return nil
}

// port is the port that this machine sends to at first.
func (t Terms) port() uint16 {
	if t.Multihop {
		return multihopPort
	}
	return port
}

// ports returns the ports that a peer may send to. FRR treats every session with TTL security as a
// multihop one; whether it is directly connected shows in the TTL alone.
func (t Terms) ports() []uint16 {
	if t.Multihop {
		return []uint16{multihopPort}
	}
	return []uint16{port, multihopPort}
}

// minTTL is the least TTL that is taken.
func (t Terms) minTTL() int {
	if t.Multihop {
		return int(t.MinTTL)
	}
	return maxTTL
}

// discriminator is the number by which this machine knows a session. The next
// process on the machine comes to the same one, so that it can go on with a session
// that the peer has not ended. From outside the machine it cannot be guessed.
func (t Terms) discriminator() uint32 {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return rand.Uint32N(1<<32-1) + 1
	}
	h := fnv.New64a()
	for _, part := range [][]byte{boot, t.Local.AsSlice(), t.Remote.AsSlice(), binary.BigEndian.AppendUint16(nil, t.port())} {
		_, _ = h.Write(part)
	}
	return max(uint32(h.Sum64()>>32)^uint32(h.Sum64()), 1)
}
