package lb

import (
	"cmp"
	"net/netip"
)

// Family is an address family. Its zero value is none.
type Family uint8

// The families.
const (
	NoFamily Family = iota
	IPv4
	IPv6
)

// familyNames are how spec.ipFamilies of a Service spells the families.
var familyNames = map[Family]string{IPv4: "IPv4", IPv6: "IPv6"}

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
	return cmp.Or(familyNames[f], "none")
}

// Other is the family that f is not.
func (f Family) Other() Family { return IPv4 + IPv6 - f }
