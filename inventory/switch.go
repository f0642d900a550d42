package inventory

import (
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// SwitchOf says how an address would be announced, and how it is, where an edit moves it
// between BGP and a link without asking for it; false: it does not. It is asked for by via in the
// address's pool: where that names the new way, or is another word than before.
func SwitchOf(vip netip.Addr, next, inForce *Inventory) (from, to string, switches bool) {
	was, had := inForce.poolAround(vip)
	is, has := next.poolAround(vip)
	if !had || !has {
		return "", "", false
	}
	from, old := was.way(vip)
	to, now := is.way(vip)
	asked := is.Via == now || is.Via != was.Via
	return from, to, old != now && !asked
}

// poolAround is the pool whose ranges hold the address, be it excluded or not.
func (inv *Inventory) poolAround(a netip.Addr) (Pool, bool) {
	i := slices.IndexFunc(inv.Pools, func(p Pool) bool { return p.Covers(a) })
	if i < 0 {
		return Pool{}, false
	}
	return inv.Pools[i], true
}

// way is how the pool announces an address, in words.
func (p Pool) way(vip netip.Addr) (words string, via Via) {
	if at := slices.IndexFunc(p.Links, func(s netip.Prefix) bool { return s.Contains(vip) }); at >= 0 {
		return "the link " + p.Links[at].String(), ViaLink
	}
	return "BGP", ViaBGP
}

// switchedBy are the addresses of both pools that the second announces another way than the first.
func switchedBy(before, after Pool) (toLink, toBGP []Range) {
	was, is := before.linkAddresses(), after.linkAddresses()
	both := func(some, without *netipx.IPSet, other Pool) []Range {
		var b netipx.IPSetBuilder
		b.AddSet(some)
		b.Intersect(other.addresses())
		b.RemoveSet(without)
		set, _ := b.IPSet() // ranges of valid addresses have no error
		return rangesOf(set)
	}
	return both(is, was, before), both(was, is, after)
}

// linkAddresses is the set of what the pool gives and announces on links.
func (p Pool) linkAddresses() *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, s := range p.Links {
		b.AddPrefix(s)
	}
	b.Intersect(p.addresses())
	set, _ := b.IPSet()
	return set
}
