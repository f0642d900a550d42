package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Sessions returns the BGP sessions of a machine with every default applied,
// sorted by router and address: one for each address of each router that its
// rack peers with, as far as the machine has an address of that family.
//
// A router with one address carries every family that the machine has and the
// inventory needs; of a router with two addresses each carries its own. A session
// comes from the machine's address on the router's link, if it has one: see source. Over a
// link-local address machines of either family reach it, and are their routes' next
// hop by their own link-local address, for IPv4 as well (RFC 8950).
func (inv *Inventory) Sessions(machine Machine) []Session {
	rack, ok := inv.Rack(machine.Rack)
	if !ok {
		return nil
	}
	var out []Session
	for _, name := range rack.Peers {
		router, ok := inv.Router(name)
		if !ok {
			continue
		}
		peer := peering{inv, &machine, &rack, &router, inv.SessionOptions(rack, router)}
		for _, addr := range router.Addresses {
			if addr.Zone() != "" {
				out = append(out, peer.unnumbered(addr))
			} else if local := peer.source(addr); local.IsValid() {
				out = append(out, peer.session(addr, local))
			}
		}
	}
	if inv.trying != nil {
		out = inv.trying.sessions(machine, out)
	}
	slices.SortFunc(out, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Router, b.Router), a.RouterAddr.Compare(b.RouterAddr))
	})
	return out
}

// SessionOptions returns the options of a rack's sessions with a router.
func (inv *Inventory) SessionOptions(rack Rack, router Router) SessionOptions {
	return inv.BGP.Session.Override(rack.Session).Override(router.Session)
}

// peering is a machine with a router that its rack peers with.
type peering struct {
	inv     *Inventory
	machine *Machine
	rack    *Rack
	router  *Router
	options SessionOptions
}

// source is the machine's address that a session with a router comes from. Over one
// hop it is the first in the rack's subnet that the router is in: a router takes
// such a neighbour on its own link only, and a machine with several links has an
// address on each. Otherwise it is the first of the family.
func (p peering) source(remote netip.Addr) netip.Addr {
	if p.options.Multihop.Value == 0 {
		for _, a := range p.machine.Addresses {
			if p.rack.HasBoth(a, remote) {
				return a
			}
		}
	}
	return FirstOf(p.machine.Addresses, remote.Is4())
}

// HasBoth reports whether a subnet of the rack has both addresses.
func (r *Rack) HasBoth(a, b netip.Addr) bool {
	return slices.ContainsFunc(r.Subnets, func(s netip.Prefix) bool { return s.Contains(a) && s.Contains(b) })
}

// session is the one between two addresses.
func (p peering) session(remote, local netip.Addr) Session {
	session := Session{
		Router: p.router.Name, RouterAddr: remote, Port: p.router.Port, Local: local,
		LocalASN: p.rack.ASN, RouterASN: p.router.ASN,
		Families:    p.families(local),
		HoldTime:    p.options.HoldTime.Or(DefaultHoldTime),
		RestartTime: p.options.RestartTime.Or(DefaultRestartTime),
		TTLSecurity: p.options.TTLSecurity.Or(false),
		Multihop:    p.options.Multihop.Or(0),
		BFD:         p.inv.BFDProfile(p.options.BFD.Or("")),
		Password:    p.options.Password.Or(SecretKey{}),
		PodCIDRs:    p.options.AdvertisePodCIDRs.Or(p.inv.PodNetwork.Mode == ModeFabric),
		Learn:       p.options.Learn.Or(LearnNothing),
		NextHop4:    FirstOf(p.machine.Addresses, true),
		NextHop6:    FirstOf(p.machine.Addresses, false),
	}
	if local.Is4() {
		session.NextHop4 = local
	} else {
		session.NextHop6 = local
	}
	return session
}

// unnumbered is one over a link-local address. The machine's own one the kernel knows.
func (p peering) unnumbered(remote netip.Addr) Session {
	s := p.session(remote, remote)
	s.Local, s.NextHop4, s.NextHop6 = netip.Addr{}, netip.Addr{}, netip.Addr{}
	return s
}

// Override returns the options, with those replaced that next gives.
func (o SessionOptions) Override(next SessionOptions) SessionOptions {
	return SessionOptions{
		HoldTime:          o.HoldTime.override(next.HoldTime),
		RestartTime:       o.RestartTime.override(next.RestartTime),
		TTLSecurity:       o.TTLSecurity.override(next.TTLSecurity),
		Multihop:          o.Multihop.override(next.Multihop),
		BFD:               o.BFD.override(next.BFD),
		Password:          o.Password.override(next.Password),
		AdvertisePodCIDRs: o.AdvertisePodCIDRs.override(next.AdvertisePodCIDRs),
		Learn:             o.Learn.override(next.Learn),
	}
}

func (o Option[T]) override(next Option[T]) Option[T] {
	if next.Set {
		return next
	}
	return o
}

// families returns the families that a session carries; at least that which it runs over.
func (p peering) families(local netip.Addr) Families {
	own := Families{IPv4: local.Is4(), IPv6: local.Is6()}
	if len(p.router.Addresses) > 1 {
		return own
	}
	need := p.inv.Families()
	both := Families{
		IPv4: need.IPv4 && FirstOf(p.machine.Addresses, true).IsValid(),
		IPv6: need.IPv6 && FirstOf(p.machine.Addresses, false).IsValid(),
	}
	if both == (Families{}) {
		return own
	}
	return both
}

// Families returns the families that the inventory needs of sessions: of its pools, but for those that are announced on
// links, and of its pod network.
func (inv *Inventory) Families() Families {
	var need Families
	for _, p := range inv.Pools {
		for _, r := range p.RangesOverBGP() {
			need.add(r.First)
		}
	}
	for _, c := range inv.PodNetwork.CIDRs {
		need.add(c.Addr())
	}
	return need
}

func (f *Families) add(a netip.Addr) {
	f.IPv4 = f.IPv4 || a.Is4()
	f.IPv6 = f.IPv6 || a.Is6()
}

// BFDProfile returns a profile; its zero value where there is none of that name.
func (inv *Inventory) BFDProfile(name string) BFDProfile {
	for _, p := range inv.BFDProfiles {
		if p.Name == name {
			return p
		}
	}
	return BFDProfile{}
}

// FirstOf returns the first address of a family, or the zero address.
func FirstOf(addrs []netip.Addr, ipv4 bool) netip.Addr {
	for _, a := range addrs {
		if a.Is4() == ipv4 {
			return a
		}
	}
	return netip.Addr{}
}

// Defaults of the settings of sessions.
const (
	DefaultHoldTime    = 9 * time.Second
	DefaultRestartTime = 60 * time.Second
	DefaultPort        = 179
	DefaultMultiplier  = 3
	DefaultLocalPref   = 100
)
