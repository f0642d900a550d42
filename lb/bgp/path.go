package bgp

import (
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// asTrans is the AS number AS_TRANS (RFC 6793, section 9).
const asTrans = 23456

// path returns an advertisement as a path of GoBGP's. The result depends on
// the arguments alone.
func path(session inventory.Session, ad advertise.Advertisement) (*apiutil.Path, error) {
	nlri, err := gobgp.NewIPAddrPrefix(ad.Prefix)
	if err != nil {
		return nil, err
	}
	hop, err := nextHop(session, ad)
	if err != nil {
		return nil, err
	}
	result := &apiutil.Path{Family: family(ad.Prefix), Nlri: nlri, Attrs: attributes(session, ad)}
	var attr gobgp.PathAttributeInterface
	if result.Family == gobgp.RF_IPv4_UC && hop.Is4() {
		attr, err = gobgp.NewPathAttributeNextHop(hop)
	} else {
		attr, err = gobgp.NewPathAttributeMpReachNLRI(result.Family, []gobgp.PathNLRI{{NLRI: nlri}}, hop)
	}
	if err != nil {
		return nil, err
	}
	result.Attrs = append(result.Attrs, attr)
	return result, nil
}

// family returns the address family of a prefix.
func family(prefix netip.Prefix) gobgp.Family {
	if prefix.Addr().Is4() {
		return gobgp.RF_IPv4_UC
	}
	return gobgp.RF_IPv6_UC
}

// attributes returns the path attributes of an advertisement, but for its next hop.
func attributes(session inventory.Session, ad advertise.Advertisement) []gobgp.PathAttributeInterface {
	attrs := []gobgp.PathAttributeInterface{gobgp.NewPathAttributeOrigin(gobgp.BGP_ORIGIN_ATTR_TYPE_IGP)}
	if session.IBGP() {
		if ad.LocalPref != 0 {
			attrs = append(attrs, gobgp.NewPathAttributeLocalPref(ad.LocalPref))
		}
	} else if ad.Prepend > 0 {
		attrs = append(attrs, prepended(uint32(session.LocalASN), ad.Prepend))
	}
	standard, large := split(ad.Communities)
	if len(standard) > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeCommunities(standard))
	}
	if len(large) > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeLargeCommunities(large))
	}
	if ad.Bandwidth > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeExtendedCommunities(bandwidth(session, ad)))
	}
	return attrs
}

// prepended returns an AS_PATH with an AS number so many times.
func prepended(asn uint32, times uint8) *gobgp.PathAttributeAsPath {
	return gobgp.NewPathAttributeAsPath([]gobgp.AsPathParamInterface{
		gobgp.NewAs4PathParam(gobgp.BGP_ASPATH_ATTR_TYPE_SEQ, slices.Repeat([]uint32{asn}, int(times))),
	})
}

// bandwidth returns the link bandwidth community (draft-ietf-idr-link-bandwidth), which
// has two octets for the ASN.
func bandwidth(s inventory.Session, ad advertise.Advertisement) []gobgp.ExtendedCommunityInterface {
	return []gobgp.ExtendedCommunityInterface{gobgp.NewLinkBandwidthExtended(twoOctets(s.LocalASN), float32(ad.Bandwidth))}
}

// twoOctets returns an AS number for a field of two octets (RFC 6793).
func twoOctets(asn inventory.ASN) uint16 {
	if asn > 0xffff {
		return asTrans
	}
	return uint16(asn)
}

// split separates standard and large communities, each in canonical order.
func split(cs inventory.Communities) (standard []uint32, large []*gobgp.LargeCommunity) {
	for c := range cs.All() {
		if c.Large {
			large = append(large, gobgp.NewLargeCommunity(c.Global, c.Local1, c.Local2))
		} else {
			standard = append(standard, c.Uint32())
		}
	}
	return standard, large
}
