package onlink

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/lb"
)

// LinkState is the state of a link. Times are on the clock of package uptime.
type LinkState struct {
	Link
	Interface string // that has the machine's address; empty: none
	MAC       MAC    // of the interface
	// Reason is empty, or why nothing is answered: [lb.NoInterface], [lb.NoCarrier] or
	// [lb.CapabilityMissing].
	Reason    lb.Reason
	Detail    string // of the reason, for people
	Addresses []AddressState
}

// AddressState is the known state of an address that is claimed or watched.
type AddressState struct {
	Addr    netip.Addr
	Claimed bool
	// Reason is empty, [lb.AddressConflict] or [lb.AddressOnInterface], which comes first
	// since it can cause the other.
	Reason      lb.Reason
	OnInterface string   // of this machine: the kernel may answer for the address, too
	Conflict    Conflict // with a stranger; only of a claim
	Heard       Heard
}

// Conflict is a claim by a host that is none of the machines.
type Conflict struct {
	MAC   MAC // of the latest; zero: there is no conflict
	Since time.Duration
	Last  time.Duration // when it was heard last
}

// Heard is a claim by another machine.
type Heard struct {
	Machine netip.Addr // invalid: none was heard
	MAC     MAC
	At      time.Duration // when it was heard last
}

// state is the link's, with its addresses sorted.
func (l *link) state() LinkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := LinkState{Link: l.config.Link, Interface: l.on.name, MAC: l.on.mac, Reason: l.reason, Detail: l.detail}
	for _, addr := range l.sorted {
		v := l.vips[addr]
		addressState := AddressState{Addr: addr, Claimed: v.claimed, OnInterface: v.onInterface, Conflict: v.conflict, Heard: v.heard}
		if v.tellAt != 0 {
			addressState.Conflict = Conflict{}
		}
		switch {
		case addressState.OnInterface != "":
			addressState.Reason = lb.AddressOnInterface
		case addressState.Conflict.MAC != MAC{}:
			addressState.Reason = lb.AddressConflict
		}
		state.Addresses = append(state.Addresses, addressState)
	}
	return state
}
