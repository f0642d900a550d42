package bgp

import (
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

const asTrans = 23456 // RFC 6793, section 9

// path writes an advertisement the way GoBGP wants it. What it writes depends on
// its arguments alone.
func path(s inventory.Session, ad advertise.Advertisement) (*apiutil.Path, error) {
	nlri, err := gobgp.NewIPAddrPrefix(ad.Prefix)
	if err != nil {
		return nil, err
	}
	hop, err := nextHop(s, ad)
	if err != nil {
		return nil, err
	}
	p := &apiutil.Path{Family: family(ad), Nlri: nlri, Attrs: attributes(s, ad)}
	if p.Family == gobgp.RF_IPv4_UC && hop.Is4() {
		attr, err := gobgp.NewPathAttributeNextHop(hop)
		if err != nil {
			return nil, err
		}
		p.Attrs = append(p.Attrs, attr)
		return p, nil
	}
	attr, err := gobgp.NewPathAttributeMpReachNLRI(p.Family, []gobgp.PathNLRI{{NLRI: nlri}}, hop)
	if err != nil {
		return nil, err
	}
	p.Attrs = append(p.Attrs, attr)
	return p, nil
}

func family(ad advertise.Advertisement) gobgp.Family {
	if ad.Prefix.Addr().Is4() {
		return gobgp.RF_IPv4_UC
	}
	return gobgp.RF_IPv6_UC
}

func attributes(s inventory.Session, ad advertise.Advertisement) []gobgp.PathAttributeInterface {
	attrs := []gobgp.PathAttributeInterface{gobgp.NewPathAttributeOrigin(gobgp.BGP_ORIGIN_ATTR_TYPE_IGP)}
	if s.IBGP() {
		if ad.LocalPref != 0 {
			attrs = append(attrs, gobgp.NewPathAttributeLocalPref(ad.LocalPref))
		}
	} else if ad.Prepend > 0 {
		attrs = append(attrs, prepended(uint32(s.LocalASN), ad.Prepend))
	}
	standard, large := split(ad.Communities)
	if len(standard) > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeCommunities(standard))
	}
	if len(large) > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeLargeCommunities(large))
	}
	if ad.Bandwidth > 0 {
		attrs = append(attrs, gobgp.NewPathAttributeExtendedCommunities(bandwidth(s, ad)))
	}
	return attrs
}

func prepended(asn uint32, times uint8) *gobgp.PathAttributeAsPath {
	as := make([]uint32, times)
	for i := range as {
		as[i] = asn
	}
	return gobgp.NewPathAttributeAsPath([]gobgp.AsPathParamInterface{
		gobgp.NewAs4PathParam(gobgp.BGP_ASPATH_ATTR_TYPE_SEQ, as),
	})
}

// bandwidth is the link bandwidth community (draft-ietf-idr-link-bandwidth), which
// has room for two octets of the ASN.
func bandwidth(s inventory.Session, ad advertise.Advertisement) []gobgp.ExtendedCommunityInterface {
	asn := uint16(asTrans)
	if s.LocalASN <= 0xffff {
		asn = uint16(s.LocalASN)
	}
	return []gobgp.ExtendedCommunityInterface{gobgp.NewLinkBandwidthExtended(asn, float32(ad.Bandwidth))}
}

// split separates the two kinds of communities, each in its canonical order.
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
