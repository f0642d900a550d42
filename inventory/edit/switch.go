package edit

import (
	"net/netip"

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
	return inventory.Find(inv.Pools, func(p inventory.Pool) bool { return p.Covers(a) })
}

// wayOf returns the way by which the pool announces an address, in words.
func wayOf(p inventory.Pool, vip netip.Addr) (words string, via inventory.Via) {
	if link, on := inventory.Find(p.Links, func(s netip.Prefix) bool { return s.Contains(vip) }); on {
		return "the link " + link.String(), inventory.ViaLink
	}
	return "BGP", inventory.ViaBGP
}

// switchedBy are the addresses of both pools that the second announces another way than the first.
func switchedBy(before, after inventory.Pool) (toLink, toBGP []inventory.Range) {
	was, is := linkAddresses(before), linkAddresses(after)
	return inventory.RangesOf(inventory.Common(inventory.SetOf(is, was), before.Addresses())),
		inventory.RangesOf(inventory.Common(inventory.SetOf(was, is), after.Addresses()))
}

// linkAddresses are the addresses that the pool gives and announces on links.
func linkAddresses(p inventory.Pool) []inventory.Range {
	return inventory.RangesOf(inventory.Common(inventory.SetOf(inventory.PrefixRanges(p.Links), nil), p.Addresses()))
}
