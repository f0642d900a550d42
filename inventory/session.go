package inventory

import (
	"net/netip"
	"time"
)

// Session is one BGP session as a machine has it, with every default applied.
// It compares with ==.
type Session struct {
	Router      string     // name
	RouterAddr  netip.Addr // where to connect
	Port        uint16
	Local       netip.Addr // the machine's address of the same family, the source of the session
	LocalASN    ASN
	RouterASN   ASN
	Families    Families
	HoldTime    time.Duration
	RestartTime time.Duration // 0: no graceful restart
	TTLSecurity bool
	Multihop    uint8
	BFD         BFDProfile // zero: off
	Password    SecretKey  // zero: none
	PodCIDRs    bool       // announce the machine's pod CIDRs
	Learn       Learn
	// NextHop4 and NextHop6 are the machine's own addresses, for routes of the
	// family that the session does not run over. Invalid: the machine has none.
	NextHop4, NextHop6 netip.Addr
}

// IBGP reports whether both ends are of one AS.
func (s Session) IBGP() bool { return s.LocalASN == s.RouterASN }

// Terms is the session without what it can be up without: what is sent over it, the
// name of its BFD profile, and next hops that no route of it has. A session whose terms
// change goes down and comes up again.
func (s Session) Terms() Session {
	s.PodCIDRs, s.BFD.Name = false, ""
	over4 := s.RouterAddr.Is4()
	if over4 || !s.Families.IPv4 {
		s.NextHop4 = netip.Addr{}
	}
	if !over4 || !s.Families.IPv6 {
		s.NextHop6 = netip.Addr{}
	}
	return s
}

// Families is the set of address families that a session carries.
type Families struct{ IPv4, IPv6 bool }

// Has reports whether routes to p can be told over the session.
func (f Families) Has(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return f.IPv4
	}
	return f.IPv6
}

// With are the families of both.
func (f Families) With(g Families) Families { return Families{f.IPv4 || g.IPv4, f.IPv6 || g.IPv6} }

// String prints the families as people name them.
func (f Families) String() string {
	return familiesNames[f]
}

// familiesNames are the names of families together.
var familiesNames = map[Families]string{{}: "none", {IPv4: true}: "IPv4", {IPv6: true}: "IPv6", {true, true}: "IPv4 and IPv6"}
