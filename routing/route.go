package routing

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"
)

// MaxNextHops is the number of routers that one route can spread traffic over. A rack with more
// uses the first ones by address. The kernel would take more: a [Route] has room for a
// fixed number, so that it compares with ==.
const MaxNextHops = 8

// Kind is the action of the kernel on a packet that a route matches, and the packets that it applies to.
type Kind uint8

// The kinds of route.
const (
	// Unicast sends the packet to a next hop.
	Unicast Kind = iota
	// Unreachable answers with an ICMP error. It yields to every other route to
	// the same destination, such as the one a CNI has for its bridge.
	Unreachable
	// UnreachableForwarded answers with an ICMP error too, but only packets that
	// came from another machine or a pod. A connection of the node's own looks its
	// route up before kube-proxy has rewritten its destination, and must find one.
	UnreachableForwarded
)

// NextHops are the addresses that a route spreads traffic over: sorted, each once. It
// compares with ==. Nearly every route has one, which is why that one costs no more
// than itself. A link-local one that is not through the tunnel bears its link as zone.
type NextHops struct {
	first netip.Addr
	rest  unique.Handle[moreHops] // zero: there are none
}

type moreHops [MaxNextHops - 1]netip.Addr // what is not used is invalid

// Via is the next hops of the given addresses: the first [MaxNextHops] of them.
func Via(addrs ...netip.Addr) NextHops {
	switch len(addrs) {
	case 0:
		return NextHops{}
	case 1:
		return NextHops{first: addrs[0]}
	}
	sorted := slices.Compact(slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare))
	hops := NextHops{first: sorted[0]}
	if len(sorted) > 1 {
		var rest moreHops
		copy(rest[:], sorted[1:])
		hops.rest = unique.Make(rest)
	}
	return hops
}

// First is the lowest of the addresses; invalid, if there is none.
func (v NextHops) First() netip.Addr { return v.first }

// All returns the addresses in order.
func (v NextHops) All() []netip.Addr {
	if !v.first.IsValid() {
		return nil
	}
	all := []netip.Addr{v.first}
	if v.rest == (unique.Handle[moreHops]{}) {
		return all
	}
	for _, a := range v.rest.Value() {
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return all
}

// Route is one route as we want it in the kernel. It compares with ==.
type Route struct {
	Dst    netip.Prefix
	Kind   Kind
	Tunnel bool // through the tunnel: the next hop is a peer's
	Via    NextHops
}

// String returns the route as one would type it after "ip route add".
func (r Route) String() string {
	switch r.Kind {
	case Unreachable:
		return "unreachable " + r.Dst.String()
	case UnreachableForwarded:
		return "unreachable " + r.Dst.String() + " for forwarded packets"
	case Unicast:
	}
	var text strings.Builder
	text.WriteString(r.Dst.String())
	hops := r.Via.All()
	for _, hop := range hops {
		if len(hops) > 1 {
			text.WriteString(" nexthop")
		}
		text.WriteString(" via ")
		if r.Dst.Addr().Is4() && hop.Is6() {
			text.WriteString("inet6 ")
		}
		text.WriteString(hop.WithZone("").String())
		if hop.Zone() != "" {
			text.WriteString(" dev " + hop.Zone())
		}
	}
	if r.Tunnel {
		text.WriteString(" dev " + TunnelDevice + " onlink")
	}
	return text.String()
}

// Key identifies a route in a [Table]: the kernel holds one of each.
type Key struct {
	Dst  netip.Prefix
	Kind Kind
}

// Key returns the key of r.
func (r Route) Key() Key { return Key{r.Dst, r.Kind} }

// Compare orders routes by destination, then kind.
func (r Route) Compare(o Route) int { return r.Key().compare(o.Key()) }

func (k Key) compare(o Key) int {
	return cmp.Or(comparePrefix(k.Dst, o.Dst), cmp.Compare(k.Kind, o.Kind))
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
