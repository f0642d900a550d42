package lb

import "net/netip"

// Family is an address family. Its zero value is none.
type Family uint8

// The families.
const (
	NoFamily Family = iota
	IPv4
	IPv6
)

// FamilyOf returns the family of a.
func FamilyOf(a netip.Addr) Family {
	switch {
	case !a.IsValid():
		return NoFamily
	case a.Is4():
		return IPv4
	}
	return IPv6
}

// String prints the family as spec.ipFamilies of a Service spells it.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	}
	return "none"
}

// other is the family that f is not.
func (f Family) other() Family { return IPv4 + IPv6 - f }

// Want says which families a Service asks for: spec.ipFamilies under
// spec.ipFamilyPolicy. SingleStack has a First alone; RequireDualStack a Second
// too; PreferDualStack a Second that is Optional, and then either will do.
type Want struct {
	First, Second Family
	Optional      bool
}

// has reports whether f is among the families asked for.
func (w Want) has(f Family) bool { return f != NoFamily && (f == w.First || f == w.Second) }

// dual reports whether both families are asked for.
func (w Want) dual() bool { return w.Second != NoFamily }
