package kernel

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// links are the prefixes that are on link, and where.
type links []onLink

type onLink struct {
	prefix netip.Prefix
	device uint32
}

// connected reads the addresses of all links; with errInterrupted, what could be read
// of them.
func connected() (all links, err error) {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		err = errInterrupted
	} else if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if p := netip.PrefixFrom(ip.Unmap(), bits); ok && p.IsValid() && !p.IsSingleIP() {
			all = append(all, onLink{p.Masked(), uint32(a.LinkIndex)})
		}
	}
	return all, err
}

// right reports whether each next hop of a route is on the link that the route
// takes. When a machine's address moves to another link, as when a bridge or a bond is
// put over the old one, the kernel leaves routes on the old.
func (ls links) right(r rawRoute) bool {
	for i := range min(r.hops, len(r.via)) {
		if !ls.reach(r.via[i], r.devices[i]) {
			return false
		}
	}
	return true
}

// reach reports whether an address is on a link, as far as one can tell: where
// no link has it, the kernel knew better when it took the route.
func (ls links) reach(a netip.Addr, device uint32) bool {
	found := false
	for _, l := range ls {
		if l.prefix.Contains(a) {
			if l.device == device {
				return true
			}
			found = true
		}
	}
	return !found
}
