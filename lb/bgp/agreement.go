package bgp

import (
	"errors"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// Why a session does not announce what it might, had the router offered more in its OPEN. Each has a row in
// docs/reference/reasons.md.
const (
	FamilyNotNegotiated  Reason = "FamilyNotNegotiated"  // the router does not take the address family (RFC 4760)
	NextHopNotNegotiated Reason = "NextHopNotNegotiated" // it takes no IPv4 with a next hop of IPv6 (RFC 8950)
)

var (
	errFamilyNotNegotiated  = errors.New("the router did not offer its address family: activate the family for this neighbour")
	errNextHopNotNegotiated = errors.New("its next hop is an IPv6 address, and the router did not offer to take that for IPv4 (RFC 8950, the capability of extended next hops): have it offer that, or name another address of the router in the inventory than a link-local one")
)

// agreement is what a router takes, by the capabilities that it offered. This machine offers the same and more.
type agreement struct {
	families   inventory.Families
	extendedV4 bool // IPv4 routes whose next hop is an IPv6 address (RFC 8950)
}

// presumed is what a router is taken to take until its first OPEN: a route that was left out at first would come after the
// End-of-RIB, at which a router in graceful restart drops what it still held of it.
var presumed = agreement{inventory.Families{IPv4: true, IPv6: true}, true}

// agreementOf reads a router's capabilities. One that names no family at all takes IPv4 (RFC 4760, section 8).
func agreementOf(caps []gobgp.ParameterCapabilityInterface) agreement {
	var a agreement
	namesAny := false
	for _, c := range caps {
		switch c := c.(type) {
		case *gobgp.CapMultiProtocol:
			namesAny = true
			a.families.IPv4 = a.families.IPv4 || c.CapValue == gobgp.RF_IPv4_UC
			a.families.IPv6 = a.families.IPv6 || c.CapValue == gobgp.RF_IPv6_UC
		case *gobgp.CapExtendedNexthop:
			for _, t := range c.Tuples {
				a.extendedV4 = a.extendedV4 || t.NLRIAFI == gobgp.AFI_IP && t.NLRISAFI == gobgp.SAFI_UNICAST && t.NexthopAFI == gobgp.AFI_IP6
			}
		}
	}
	if !namesAny {
		a.families.IPv4 = true
	}
	return a
}

// takesAll reports whether a router takes whatever the session may announce.
func (a agreement) takesAll(s inventory.Session) bool {
	carried := (a.families.IPv4 || !s.Families.IPv4) && (a.families.IPv6 || !s.Families.IPv6)
	return carried && (a.extendedV4 || s.RouterAddr.Is4())
}

// refuses says why a router would not take an advertisement; nil: it takes it.
func (a agreement) refuses(s inventory.Session, ad advertise.Advertisement) (Reason, error) {
	if !a.families.Has(ad.Prefix) {
		return FamilyNotNegotiated, errFamilyNotNegotiated
	}
	if hop, err := nextHop(s, ad); err == nil && ad.Prefix.Addr().Is4() && hop.Is6() && !a.extendedV4 {
		return NextHopNotNegotiated, errNextHopNotNegotiated
	}
	return "", nil
}

// admit parts what the guard let through into what the router takes, and what it would not.
func (a agreement) admit(s inventory.Session, want routes) (routes, withheld) {
	var k withheld
	if a.takesAll(s) {
		return want, k
	}
	good := make([]advertise.Advertisement, 0, want.Len())
	for ad := range want.All() {
		if reason, err := a.refuses(s, ad); err != nil {
			k.add(Refusal{ad.Prefix, reason, err.Error()})
			continue
		}
		good = append(good, ad)
	}
	return sorted.Of(good...), k
}
