package advertise

import (
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// VIPOn returns the VIP of some offers of a pool as all machines of a link see it, or the reason why none
// of them answers for it. It is for previews of a whole datacenter; see [LinksOf].
func VIPOn(link inventory.Link, pool *inventory.Pool, offers []Offer) (v LinkVIP, refusal lb.Reason) {
	scope := &poolScope{pool: pool, refusal: poolRefusal(pool)}
	var all []LinkVIP
	for i := range offers {
		if one, refused := linkVIP(link, &offers[i], scope); refused == "" {
			all = addLinkVIP(all, one)
		} else {
			refusal = refused
		}
	}
	if len(all) == 0 {
		return LinkVIP{}, refusal
	}
	return all[0], ""
}

// Able lists the machines that can answer for a VIP, sorted: one of them is its owner.
func (s Segment) Able(v LinkVIP) []string {
	return slices.Sorted(slices.Values(s.names(func(m Neighbor) bool { return s.canOwn(v, m.Name, m.Name) })))
}
