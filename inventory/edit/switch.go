package edit

import (
	"net/netip"
	"slices"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
)

// SwitchOf returns the way by which an address would be announced, and the one by which it is, where an edit moves it
// between BGP and a link without asking for it; false: it does not. It is asked for by via in the
// address's pool: where that names the new way, or is another word than before.
func SwitchOf(vip netip.Addr, next, inForce *inventory.Inventory) (from, to string, switches bool) {
	was, had := poolAround(inForce, vip)
	is, has := poolAround(next, vip)
	if !had || !has {
		return "", "", false
	}
	from, old := wayOf(was, vip)
	to, now := wayOf(is, vip)
	asked := is.Via == now || is.Via != was.Via
	return from, to, old != now && !asked
}

// poolAround is the pool whose ranges hold the address, be it excluded or not.
func poolAround(inv *inventory.Inventory, a netip.Addr) (inventory.Pool, bool) {
	i := slices.IndexFunc(inv.Pools, func(p inventory.Pool) bool { return p.Covers(a) })
	if i < 0 {
		return inventory.Pool{}, false
	}
	return inv.Pools[i], true
}

// wayOf returns the way by which the pool announces an address, in words.
func wayOf(p inventory.Pool, vip netip.Addr) (words string, via inventory.Via) {
	if at := slices.IndexFunc(p.Links, func(s netip.Prefix) bool { return s.Contains(vip) }); at >= 0 {
		return "the link " + p.Links[at].String(), inventory.ViaLink
	}
	return "BGP", inventory.ViaBGP
}

// switchedBy are the addresses of both pools that the second announces another way than the first.
func switchedBy(before, after inventory.Pool) (toLink, toBGP []inventory.Range) {
	was, is := linkAddresses(before), linkAddresses(after)
	both := func(some, without *netipx.IPSet, other inventory.Pool) []inventory.Range {
		var b netipx.IPSetBuilder
		b.AddSet(some)
		b.Intersect(other.Addresses())
		b.RemoveSet(without)
		set, _ := b.IPSet() // ranges of valid addresses have no error
		return inventory.RangesOf(set)
	}
	return both(is, was, before), both(was, is, after)
}

// linkAddresses is the set of what the pool gives and announces on links.
func linkAddresses(p inventory.Pool) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, s := range p.Links {
		b.AddPrefix(s)
	}
	b.Intersect(p.Addresses())
	set, _ := b.IPSet()
	return set
}
