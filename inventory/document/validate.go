package document

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// validation checks what no single value can: names that are used twice, what
// refers to what, and everything that must not overlap.
type validation struct {
	*decoder
	raw   *rawSpec
	inv   *inventory.Inventory
	hosts []scalar[netip.Addr] // of all machines and routers, sorted
	bare  []bareRack           // those without subnets

	unwritable map[string]bool // routers that were told so already
}

// validate runs every check.
func (d *decoder) validate(raw *rawInventory, inv *inventory.Inventory) {
	v := &validation{decoder: d, raw: &raw.Spec, inv: inv}
	v.hosts, v.bare = v.hostAddresses(), v.bareRacks()
	for _, check := range []func(){
		v.names, v.references, v.expected, v.labelKeys,
		v.identities, v.units, v.taints,
		v.addresses, v.subnets,
		v.poolRanges, v.poolsAndOthers, v.reservations, v.poolReach, v.aggregates, v.shadowed,
		v.viaAgrees, v.links,
		v.systems, v.sessions, v.routers, v.linkLocals, v.bfd,
		v.storages, v.selectors,
		v.podNetwork, v.podCIDRs,
		v.effects,
	} {
		check()
	}
}

// unknownCommunity refuses what is neither a name nor a community.
func (d *decoder) unknownCommunity(c scalar[string], named map[string]inventory.Community, err error) {
	if d.part && !strings.Contains(c.v, ":") {
		return // it may be a name
	}
	if looksLikeCommunity(c.v) {
		d.refuse(c.node, badCommunity(c.v, err))
		return
	}
	names := append(slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(inventory.WellKnownCommunities))...)
	d.refuse(c.node, refusal{code: inventory.UnknownCommunity, message: "is neither a name in spec.communities nor a community",
		accepted: "a name in spec.communities, a well-known name, or 65010:100", suggestion: Nearest(c.v, names)})
}

// looksLikeCommunity tells a community that is written badly from a name.
func looksLikeCommunity(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9'
}
