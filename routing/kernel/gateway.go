package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// GatewaysOn returns those next hops of the default routes of the main table that are on a link, sorted: in its subnet, or, of IPv6,
// link-local at the interface that has the machine's own address there. Routers that advertise themselves are found so
// (RFC 4861, section 4.2). A family that the kernel does not have has none.
func GatewaysOn(subnet netip.Prefix, self netip.Addr) (all []netip.Addr, err error) {
	family := netlink.FAMILY_V4
	if subnet.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	hops, err := defaultHops(family)
	if err != nil && family == netlink.FAMILY_V4 {
		return nil, fmt.Errorf("default routes: %w", err)
	}
	device := -1 // that has self, once it is looked up
	for _, hop := range hops {
		gateway, _ := netip.AddrFromSlice(hop.Gw)
		gateway = gateway.Unmap()
		onLink := subnet.Contains(gateway)
		if !onLink && gateway.Is6() && gateway.IsLinkLocalUnicast() {
			if device < 0 {
				if device, err = interfaceWith(self, family); err != nil {
					return nil, err
				}
			}
			onLink = hop.LinkIndex == device
		}
		if onLink {
			all = append(all, gateway)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

// defaultHops are the next hops of the default routes of the main table, with those of routes that have several.
func defaultHops(family int) (all []*netlink.NexthopInfo, err error) {
	routes, err := netlink.RouteList(nil, family)
	for _, route := range routes {
		if route.Dst == nil || isDefault(route) {
			all = append(append(all, &netlink.NexthopInfo{Gw: route.Gw, LinkIndex: route.LinkIndex}), route.MultiPath...)
		}
	}
	return all, err
}

// Towards asks the kernel which link a packet to an address would leave by, and the next hop where the address is not on that link. Without a
// route, or with one that discards what it takes, the link is empty. The packet has an address of the machine as its source; invalid: the kernel
// chooses one.
func Towards(addr, from netip.Addr) (device string, gateway netip.Addr, err error) {
	if addr.Zone() != "" {
		return addr.Zone(), netip.Addr{}, nil
	}
	options := &netlink.RouteGetOptions{}
	if from.IsValid() {
		options.SrcAddr = from.AsSlice()
	}
	found, err := netlink.RouteGetWithOptions(addr.AsSlice(), options)
	for _, none := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EINVAL, unix.EACCES} { // of no route, and of those that are unreachable, a blackhole or prohibit
		if errors.Is(err, none) {
			return "", netip.Addr{}, nil
		}
	}
	if err != nil || len(found) == 0 {
		return "", netip.Addr{}, err
	}
	link, err := netlink.LinkByIndex(found[0].LinkIndex)
	if err != nil {
		return "", netip.Addr{}, fmt.Errorf("link of the route to %v: %w", addr, err)
	}
	if via, ok := netip.AddrFromSlice(found[0].Gw); ok {
		gateway = via.Unmap()
	}
	return link.Attrs().Name, gateway, nil
}

// interfaceWith is the index of the interface that has an address; 0: none has.
func interfaceWith(addr netip.Addr, family int) (int, error) {
	addrs, err := netlink.AddrList(nil, family)
	if err != nil {
		return 0, fmt.Errorf("addresses of the machine: %w", err)
	}
	for _, a := range addrs {
		if a.IP.Equal(net.IP(addr.AsSlice())) {
			return a.LinkIndex, nil
		}
	}
	return 0, nil
}

func isDefault(r netlink.Route) bool {
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}
