package document

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// poolChecks are the checks of the addresses of pools.
type poolChecks struct{ *validation }

// poolRanges refuses ranges that overlap, within a pool or between two, and
// those that no VIP can be of.
func (v poolChecks) poolRanges() {
	var all []span
	for p := range v.raw.Pools.each() {
		for _, r := range p.Addresses.v {
			all = append(all, span{r.v, r.node})
			v.fitForVIPs(r)
		}
		v.excluded(p)
	}
	overlaps(all, func(a, b span) {
		v.refuse(b.node, refusal{code: inventory.PoolsOverlap, message: "overlaps " + a.String(), accepted: "ranges that have nothing in common", suggestion: without(b.Range, a.Range)}, a.node)
	})
}

// without returns the rest of a range after less is excluded, if that is one piece; else it is empty.
func without(r, less inventory.Range) string {
	left := inventory.SetOf([]inventory.Range{r}, []inventory.Range{less}).Ranges()
	if len(left) != 1 {
		return ""
	}
	_, isPrefix := left[0].Prefix()
	return inventory.Range{First: left[0].From(), Last: left[0].To(), Prefix: isPrefix}.String()
}

// fitForVIPs refuses addresses that routers do not carry.
func (v poolChecks) fitForVIPs(scalar scalar[inventory.Range]) {
	for _, addr := range []netip.Addr{scalar.v.First, scalar.v.Last} {
		what := special(addr)
		if scalar.v.Prefix && what == "an address of this network alone" && scalar.v.First.IsUnspecified() {
			what = "part of a whole family"
		}
		if what != "" {
			v.refuse(scalar.node, refusal{code: inventory.NotForVIPs, message: addr.String() + " is " + what, accepted: "unicast addresses that routers carry"})
			return
		}
	}
	if scalar.v.Size() > 1<<40 && scalar.v.Is4() || scalar.v.Is4() && scalar.v.Size() > 1<<24 {
		v.refuse(scalar.node, refusal{code: inventory.NotForVIPs, message: "is larger than any one network", accepted: "an IPv4 range of at most 16777216 addresses"})
	}
}

// excluded warns of exclusions that exclude nothing, or everything.
func (v poolChecks) excluded(pool *rawPool) {
	var gives []inventory.Range
	for _, r := range pool.Addresses.v {
		gives = append(gives, pool.gives(r.v))
	}
	for _, e := range pool.Exclude.v {
		if !slices.ContainsFunc(pool.Addresses.v, func(r scalar[inventory.Range]) bool { return r.v.Overlaps(e.v) }) {
			v.refuse(e.node, refusal{code: inventory.NothingExcluded, severity: inventory.Warning, message: "excludes nothing, for it is no part of the pool", accepted: "addresses of the pool", suggestion: pool.like(e.v)}, pool.Addresses.node)
		}
	}
	if left := inventory.SetOf(gives, values(pool.Exclude)); len(left.Ranges()) == 0 && len(gives) > 0 && pool.State.v != inventory.PoolDisabled {
		v.refuse(pool.Exclude.node, refusal{code: inventory.PoolEmpty, severity: inventory.Warning, message: "excludes every address that the pool would give", accepted: "some addresses that are left", suggestion: "state: disabled"}, pool.Addresses.node)
	}
}

// like is the range of the pool's first prefix that ends as another range does.
func (p *rawPool) like(ipRange inventory.Range) string {
	for _, have := range p.Addresses.v {
		first := transplanted(ipRange.First, have.v)
		prefix, isPrefix := ipRange.AsPrefix()
		whole, _ := have.v.AsPrefix()
		switch {
		case first == "" || isPrefix && prefix.Bits() < whole.Bits():
		case isPrefix && ipRange.Prefix:
			return netip.MustParsePrefix(first + "/" + strconv.Itoa(prefix.Bits())).Masked().String()
		case ipRange.First == ipRange.Last:
			return first
		}
	}
	return ""
}

// poolsAndOthers refuses pools that hold the address of a machine or router or
// that overlap pod CIDRs.
func (v poolChecks) poolsAndOthers() {
	for p := range v.raw.Pools.each() {
		for _, r := range p.Addresses.v {
			v.poolAndHosts(p, r)
			for _, c := range v.raw.PodNetwork.CIDRs.v {
				if r.v.Overlaps(inventory.RangeOf(c.v)) {
					v.refuse(r.node, refusal{code: inventory.PoolHoldsPods, message: "overlaps the pod network " + c.v.String(), accepted: "addresses that no pod has",
						suggestion: without(r.v, inventory.RangeOf(c.v))}, c.node)
				}
			}
		}
	}
}

func (v poolChecks) poolAndHosts(pool *rawPool, ipRange scalar[inventory.Range]) {
	from, _ := v.hostAt(ipRange.v.First)
	for _, host := range v.hosts[from:] {
		if !ipRange.v.Contains(host.v) {
			return
		}
		if !slices.ContainsFunc(pool.Exclude.v, func(e scalar[inventory.Range]) bool { return e.v.Contains(host.v) }) {
			v.refuse(ipRange.node, refusal{code: inventory.PoolHoldsHost, message: "holds " + host.v.String() + ", the address of " + v.ownerOf(host.node),
				accepted: "addresses that nothing else has", suggestion: fmt.Sprintf("exclude: [%s]", quoted(host.v.String()))}, host.node)
		}
	}
}

// reservations refuses an address that is reserved twice, or that its pool does not give.
func (v poolChecks) reservations() {
	seen := map[string]*yaml.Node{}
	for raw := range v.raw.Pools.each() {
		pool, _ := v.inv.Pool(raw.Name.v)
		for _, entry := range raw.Reserved.v {
			addr, err := netip.ParseAddr(entry.key.v)
			if err != nil || !v.claim(seen, entry.key.v, entry.key.node, refusal{code: inventory.ReservedTwice, message: "is reserved twice", value: entry.key.node.Value, accepted: "one Service for each address",
				suggestion: addr.Next().String(), example: true}) {
				continue
			}
			if !pool.Contains(addr) {
				v.outsidePool(pool, entry.key, addr)
			} else {
				v.skipped(raw, entry.key, addr)
			}
		}
	}
}

// skipped refuses to reserve what skipFirstLast leaves out.
func (v poolChecks) skipped(pool *rawPool, key scalar[string], addr netip.Addr) {
	for _, scalar := range pool.Addresses.v {
		if inner := pool.gives(scalar.v); scalar.v.Contains(addr) && !inner.Contains(addr) {
			nearest := inner.First
			if addr == scalar.v.Last {
				nearest = inner.Last
			}
			v.refuse(key.node, refusal{code: inventory.OutsidePool, message: "is the first or last address of " + scalar.v.String() + ", which skipFirstLast leaves out", value: key.v,
				accepted: "an address that the pool gives", suggestion: nearest.String()}, pool.SkipFirstLast.node)
		}
	}
}

func (v poolChecks) outsidePool(pool inventory.Pool, key scalar[string], addr netip.Addr) {
	refused := refusal{code: inventory.OutsidePool, message: "is not in the pool", value: key.v, accepted: "an address of the pool that is not excluded"}
	if inventory.InRanges(pool.Exclude, addr) {
		refused.message = "is excluded from the pool"
	}
	if other, ok := v.inv.PoolOf(addr); ok {
		refused.accepted += ", or the reservation in pool " + other.Name + ", which has the address"
	} else if len(pool.Ranges) > 0 {
		refused.suggestion = transplanted(addr, pool.Ranges[0])
	}
	v.refuse(key.node, refused)
}
