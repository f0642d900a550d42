package kernel

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// DefaultGateways returns the next hops of the default routes of the main table, of both families,
// sorted. A family that the kernel does not have has none.
func DefaultGateways() (all []netip.Addr, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteList(nil, family)
		if err != nil && family == netlink.FAMILY_V4 {
			return nil, fmt.Errorf("default routes: %w", err)
		}
		for _, r := range routes {
			if r.Dst != nil && !isDefault(r) {
				continue
			}
			for _, hop := range append([]*netlink.NexthopInfo{{Gw: r.Gw}}, r.MultiPath...) {
				if gw, ok := netip.AddrFromSlice(hop.Gw); ok {
					all = append(all, gw.Unmap())
				}
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

func isDefault(r netlink.Route) bool {
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}
