package bgp

import (
	"errors"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

var (
	errFamilyNotNegotiated  = errors.New("the router did not offer its address family: activate the family for this neighbour")
	errNextHopNotNegotiated = errors.New("its next hop is an IPv6 address, and the router did not offer to take that for IPv4 (RFC 8950, the capability of extended next hops): have it offer that, or name another address of the router in the inventory than a link-local one")
)

// agreement holds the routes that a router accepts, by the capabilities that it offered. This machine offers the same and more.
type agreement struct {
	families   inventory.Families
	extendedV4 bool // IPv4 routes whose next hop is an IPv6 address (RFC 8950)
}

// presumed is the agreement before a router's first OPEN: a route that was left out at first would come after the
// End-of-RIB, at which a router in graceful restart drops what it still held of it.
var presumed = agreement{inventory.Families{IPv4: true, IPv6: true}, true}

// agreementOf reads a router's capabilities. One that names no family at all accepts IPv4 (RFC 4760, section 8).
func agreementOf(caps []gobgp.ParameterCapabilityInterface) (agreed agreement) {
	namesAny := false
	for _, capability := range caps {
		switch capability := capability.(type) {
		case *gobgp.CapMultiProtocol:
			namesAny = true
			agreed.families.IPv4 = agreed.families.IPv4 || capability.CapValue == gobgp.RF_IPv4_UC
			agreed.families.IPv6 = agreed.families.IPv6 || capability.CapValue == gobgp.RF_IPv6_UC
		case *gobgp.CapExtendedNexthop:
			for _, t := range capability.Tuples {
				agreed.extendedV4 = agreed.extendedV4 || t.NLRIAFI == gobgp.AFI_IP && t.NLRISAFI == gobgp.SAFI_UNICAST && t.NexthopAFI == gobgp.AFI_IP6
			}
		}
	}
	if !namesAny {
		agreed.families.IPv4 = true
	}
	return agreed
}

// acceptsAll reports whether a router accepts whatever the session may announce.
func (a agreement) acceptsAll(s inventory.Session) bool {
	carried := (a.families.IPv4 || !s.Families.IPv4) && (a.families.IPv6 || !s.Families.IPv6)
	return carried && (a.extendedV4 || s.RouterAddr.Is4())
}

// excludes returns the reason for which a router would not accept an advertisement; nil: it accepts it.
func (a agreement) excludes(s inventory.Session, ad advertise.Advertisement) (Reason, error) {
	if !a.families.Has(ad.Prefix) {
		return FamilyNotNegotiated, errFamilyNotNegotiated
	}
	if hop, err := nextHop(s, ad); err == nil && ad.Prefix.Addr().Is4() && hop.Is6() && !a.extendedV4 {
		return NextHopNotNegotiated, errNextHopNotNegotiated
	}
	return "", nil
}

// filter separates the routes that the router accepts from those that are withheld.
func (a agreement) filter(session inventory.Session, desired routes) (routes, withheld) {
	var excluded withheld
	if a.acceptsAll(session) {
		return desired, excluded
	}
	accepted := make([]advertise.Advertisement, 0, desired.Len())
	for ad := range desired.All() {
		if reason, err := a.excludes(session, ad); err != nil {
			excluded.add(Refusal{ad.Prefix, reason, err.Error()})
			continue
		}
		accepted = append(accepted, ad)
	}
	return sorted.Of(accepted...), excluded
}
