package kernel

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// links are the prefixes that are on link, and where.
type links struct {
	prefixes []onLink
	asked    map[netip.Addr]uint32 // what the kernel said of addresses that it was asked for
	names    map[uint32]string     // of links that lead to link-local next hops
}

type onLink struct {
	prefix netip.Prefix
	device uint32
}

// connected reads the addresses of all links; with errInterrupted, what could be read
// of them.
func connected() (all links, err error) {
	all.asked, all.names = map[netip.Addr]uint32{}, map[uint32]string{}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		err = errInterrupted
	} else if err != nil {
		return all, err
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if p := netip.PrefixFrom(ip.Unmap(), bits); ok && p.IsValid() && !p.IsSingleIP() {
			all.prefixes = append(all.prefixes, onLink{p.Masked(), uint32(a.LinkIndex)})
		}
	}
	return all, err
}

// right reports whether each next hop of a route is on the link that the route
// takes. When a machine's address moves to another link, as when a bridge or a bond is
// put over the old one, the kernel leaves routes on the old.
func (ls *links) right(r *rawRoute) bool {
	for i := range min(r.hops, len(r.via)) {
		if !ls.reach(r.via[i], r.devices[i]) && ls.ask(r.via[i]) != r.devices[i] {
			return false
		}
	}
	return true
}

// reach reports whether an address is on a link, as far as one can tell: where
// no link has it, the kernel knew better when it took the route.
func (ls *links) reach(a netip.Addr, device uint32) bool {
	found := false
	for _, l := range ls.prefixes {
		if l.prefix.Contains(a) {
			if l.device == device {
				return true
			}
			found = true
		}
	}
	return !found
}

// zones gives a route's link-local next hops the names of their links as zones. One whose
// link is gone has none, and so differs from all that are wanted.
func (ls *links) zones(r *rawRoute) {
	for i := range min(r.hops, len(r.via)) {
		if r.via[i].IsLinkLocalUnicast() {
			r.via[i] = r.via[i].WithZone(ls.name(r.devices[i]))
		}
	}
}

func (ls *links) name(device uint32) string {
	if name, known := ls.names[device]; known {
		return name
	}
	if link, err := netlink.LinkByIndex(int(device)); err == nil {
		ls.names[device] = link.Attrs().Name
	}
	return ls.names[device]
}

// ask has the kernel say which link leads to an address; 0: none does without a router in
// between. A host route over another link than the subnet's, as wg-quick and proxy ARP make
// it, has the kernel take that one for a route via the address as well. What we wrote anew
// would come back the same.
func (ls *links) ask(addr netip.Addr) uint32 {
	if device, known := ls.asked[addr]; known {
		return device
	}
	found, err := netlink.RouteGetWithOptions(addr.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err == nil && len(found) == 1 && found[0].Gw == nil && found[0].Via == nil && len(found[0].MultiPath) == 0 {
		ls.asked[addr] = uint32(found[0].LinkIndex)
	} else {
		ls.asked[addr] = 0
	}
	return ls.asked[addr]
}
