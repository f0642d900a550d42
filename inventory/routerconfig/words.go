package routerconfig

import (
	"crypto/sha256"
	"fmt"
	"net/netip"

	"plinth.dev/plinth/inventory"
)

// Words that several languages share.

// either is the first word where something is so, else the second.
func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func digit(v4 bool) string { return either(v4, "4", "6") }

func ipv(v4 bool) string { return "ipv" + digit(v4) }

func ip(v4 bool) string { return either(v4, "ip", "ipv6") }

func defaultRoute(v4 bool) string { return either(v4, "0.0.0.0/0", "::/0") }

// only is the word for an aggregate whose parts need not be told, empty for others.
func only(a aggregate, word string) string { return either(a.alone, word, "") }

// geLe writes what an entry of a prefix list matches.
func geLe(r rule) string {
	if r.exact() {
		return r.block.String()
	}
	return fmt.Sprintf("%s ge %d le %d", r.block, r.length, r.length)
}

// outMap is the route map for what goes out to a group.
func outMap(g *group) string { return either(g.learns(), "PLINTH_DEFAULT", "PLINTH_NONE") }

// bothLimits is one limit for both families.
func bothLimits(g *group) int {
	limit := 0
	for _, v4 := range []bool{true, false} {
		if g.carries(v4) {
			limit += g.limit(v4)
		}
	}
	return limit
}

// routerID is the router's IPv4 address, or where it has none 32 bits made of its
// name: a router ID is a number that only looks like an address (RFC 6286).
func routerID(r inventory.Router) netip.Addr {
	if id := inventory.FirstOf(r.Addresses, true); id.IsValid() {
		return id
	}
	sum := sha256.Sum256([]byte(r.Name))
	return netip.AddrFrom4([4]byte{10, sum[0], sum[1], sum[2]})
}
