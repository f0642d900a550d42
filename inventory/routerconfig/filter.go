package routerconfig

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// rule matches the prefixes of exactly one length within a block: the VIPs of a
// pool, or the pod CIDRs of machines.
type rule struct {
	block  netip.Prefix
	length int
}

// exact reports whether the block itself is the only prefix that matches.
func (r rule) exact() bool { return r.block.Bits() == r.length }

// count is the number of prefixes that match, at most most.
func (r rule) count(most int) int {
	if bits := r.length - r.block.Bits(); bits < 30 {
		return min(1<<bits, most)
	}
	return most
}

// filter holds the prefixes that machines of one kind may announce. Its lists are sorted.
type filter struct {
	name           string // PLINTH, or PLINTH_<RACK> where racks differ
	vip4, vip6     []rule
	pod4, pod6     []rule
	limit4, limit6 int // prefixes that one machine may announce at most
}

// The limit on prefixes protects the router from us, so it must not stop what
// people may rightly do: every address of every pool at once, or as many as an
// agent announces over one session at most, whichever is less, and some more.
const mostPrefixes = 50_000

// limits fills in how many prefixes a machine may announce that has so many pod
// CIDRs of a family at most.
func (f *filter) limits(pods4, pods6 int) {
	f.limit4 = limit(f.vip4, pods4)
	f.limit6 = limit(f.vip6, pods6)
}

func limit(vips []rule, pods int) int {
	n := pods
	for _, r := range vips {
		n = min(n+r.count(mostPrefixes), mostPrefixes+pods)
	}
	return n + n/8 + 10
}

// sort brings the rules in their order, without doubles.
func (f *filter) sort() {
	for _, rules := range []*[]rule{&f.vip4, &f.vip6, &f.pod4, &f.pod6} {
		slices.SortFunc(*rules, compareRules)
		*rules = slices.Compact(*rules)
	}
}

func compareRules(a, b rule) int {
	return cmp.Or(a.block.Addr().Compare(b.block.Addr()), a.block.Bits()-b.block.Bits(), a.length-b.length)
}

func (f *filter) equal(o *filter) bool {
	return slices.Equal(f.vip4, o.vip4) && slices.Equal(f.vip6, o.vip6) &&
		slices.Equal(f.pod4, o.pod4) && slices.Equal(f.pod6, o.pod6) &&
		f.limit4 == o.limit4 && f.limit6 == o.limit6
}

// addPool lets in the VIPs of a pool as one of its advertisements has them: single addresses, and prefixes of its aggregate
// length where one lies wholly in the pool. With an aggregate, too, VIPs of Services
// with local traffic are announced by themselves. Excluded addresses are let in,
// too: one that was given before somebody excluded it stays where it is. What is announced on
// a link is not: no router is to hear of it.
func (f *filter) addPool(p inventory.Pool, a inventory.Advertise) {
	for _, r := range p.RangesOverBGP() {
		for _, block := range r.Prefixes() {
			alone := rule{block: block, length: block.Addr().BitLen()}
			f.addVIP(alone)
			if length := a.Aggregate.For(block.Addr()); length >= block.Bits() && length < alone.length {
				f.addVIP(rule{block: block, length: length})
			}
		}
	}
}

func (f *filter) addVIP(r rule) {
	if r.block.Addr().Is4() {
		f.vip4 = append(f.vip4, r)
	} else {
		f.vip6 = append(f.vip6, r)
	}
}

func (f *filter) addPods(block netip.Prefix, length int) {
	r := rule{block: block, length: max(length, block.Bits())}
	if block.Addr().Is4() {
		f.pod4 = append(f.pod4, r)
	} else {
		f.pod6 = append(f.pod6, r)
	}
}

// prefixList is the rules of one kind and family, under a name of its own.
type prefixList struct {
	name  string
	v4    bool
	rules []rule
}

// lists are the filter's rules as prefix lists, empty ones left out.
func (f *filter) lists() []prefixList {
	all := []prefixList{
		{f.name + "_VIP4", true, f.vip4}, {f.name + "_VIP6", false, f.vip6},
		{f.name + "_POD4", true, f.pod4}, {f.name + "_POD6", false, f.pod6},
	}
	return slices.DeleteFunc(all, func(l prefixList) bool { return len(l.rules) == 0 })
}
