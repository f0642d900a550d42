package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// What VXLAN adds to a packet, in bytes: the inner Ethernet header, its own, UDP's
// and the outer IP header (RFC 7348, section 5).
const (
	overhead4 = 14 + 8 + 8 + 20
	overhead6 = 14 + 8 + 8 + 40
)

// errNoUnderlay says that no link has the tunnel's own address.
var errNoUnderlay = errors.New("no link has the tunnel's address")

// SetTunnel makes the tunnel what want says, with exactly its peers; the zero value
// removes it. It is called before the Set that has routes through a new tunnel, and
// after the Set that has none left.
func (t *Table) SetTunnel(ctx context.Context, want routing.Tunnel) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !want.Exists() {
		return t.dropTunnel()
	}
	if t.sure && t.tunnelled.Equal(want) {
		return nil
	}
	link, err := ensureDevice(want)
	if err != nil {
		return fmt.Errorf("tunnel %s: %w", routing.TunnelDevice, err)
	}
	if index := uint32(link.Attrs().Index); index != t.tunnel {
		t.tunnel = index
		t.Doubt()
	}
	t.tunnelled = routing.Tunnel{}
	err = errors.Join(setInner(link, want.Inner), setPeers(link, want.Peers))
	if err != nil {
		return fmt.Errorf("tunnel %s: %w", routing.TunnelDevice, err)
	}
	t.tunnelled = want
	return nil
}

func (t *Table) dropTunnel() error {
	if t.tunnel == 0 && t.sure {
		return nil
	}
	t.tunnel, t.tunnelled = 0, routing.Tunnel{}
	return removeDevice()
}

// removeDevice deletes the tunnel, which bears our name.
func removeDevice() error {
	link, err := netlink.LinkByName(routing.TunnelDevice)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// ensureDevice returns the device, made anew if one of that name cannot become it.
func ensureDevice(want routing.Tunnel) (netlink.Link, error) {
	mtu, err := tunnelMTU(want.Local)
	if err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(routing.TunnelDevice)
	if err == nil && !isTunnel(link, want) {
		if err := netlink.LinkDel(link); err != nil {
			return nil, err
		}
		link = nil
	}
	if link == nil || err != nil {
		if link, err = addDevice(want, mtu); err != nil {
			return nil, err
		}
	}
	return link, adjustDevice(link, want, mtu)
}

func addDevice(want routing.Tunnel, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = routing.TunnelDevice, mtu, want.MAC[:]
	err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: routing.TunnelNetwork, Port: routing.TunnelPort, SrcAddr: want.Local.AsSlice(),
		Learning: false, // each peer is told to it
		UDPCSum:  true,  // most network cards work checksums out for free, and receivers then merge packets (GRO)
	})
	if err != nil {
		return nil, err
	}
	return netlink.LinkByName(routing.TunnelDevice)
}

// isTunnel reports whether a device can be used: what cannot be changed on it is right.
func isTunnel(link netlink.Link, want routing.Tunnel) bool {
	v, ok := link.(*netlink.Vxlan)
	if !ok {
		return false
	}
	local, _ := netip.AddrFromSlice(v.SrcAddr)
	return v.VxlanId == routing.TunnelNetwork && v.Port == routing.TunnelPort && !v.Learning && local.Unmap() == want.Local
}

func adjustDevice(link netlink.Link, want routing.Tunnel, mtu int) error {
	attrs := link.Attrs()
	var err error
	if attrs.HardwareAddr.String() != net.HardwareAddr(want.MAC[:]).String() {
		err = netlink.LinkSetHardwareAddr(link, want.MAC[:])
	}
	if attrs.MTU != mtu {
		err = errors.Join(err, netlink.LinkSetMTU(link, mtu))
	}
	if attrs.Flags&net.FlagUp == 0 {
		err = errors.Join(err, netlink.LinkSetUp(link))
	}
	return err
}

// tunnelMTU is that of the link with the tunnel's address, less what VXLAN adds.
func tunnelMTU(local netip.Addr) (int, error) {
	overhead, family := overhead4, unix.AF_INET
	if local.Is6() {
		overhead, family = overhead6, unix.AF_INET6
	}
	addrs, err := netlink.AddrList(nil, family)
	if err != nil {
		return 0, err
	}
	for _, a := range addrs {
		if have, _ := netip.AddrFromSlice(a.IP); have.Unmap() == local {
			link, err := netlink.LinkByIndex(a.LinkIndex)
			if err != nil {
				return 0, err
			}
			return link.Attrs().MTU - overhead, nil
		}
	}
	return 0, fmt.Errorf("%w: %v", errNoUnderlay, local)
}

// setInner gives the device the addresses that the node itself sends from.
func setInner(link netlink.Link, want []netip.Addr) error {
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	missing := map[netip.Addr]bool{}
	for _, a := range want {
		missing[a] = true
	}
	var errs []error
	for _, h := range have {
		addr, _ := netip.AddrFromSlice(h.IP)
		addr = addr.Unmap()
		switch {
		case missing[addr]:
			delete(missing, addr)
		case !addr.IsLinkLocalUnicast():
			errs = append(errs, netlink.AddrDel(link, &h))
		}
	}
	for a := range missing {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD // nobody else is on this link
		}
		errs = append(errs, netlink.AddrReplace(link, addr))
	}
	return errors.Join(errs...)
}

// neighbour is one static entry: of a next hop's hardware address, or, with
// bridge, of the node behind a hardware address. It compares with ==.
type neighbour struct {
	bridge bool
	ip     netip.Addr
	mac    routing.MAC
}

// setPeers gives the device the entries of exactly these peers.
func setPeers(link netlink.Link, peers []routing.Peer) error {
	missing := map[neighbour]bool{}
	for _, p := range peers {
		missing[neighbour{ip: p.Inner, mac: p.MAC}] = true
		missing[neighbour{bridge: true, ip: p.Outer, mac: p.MAC}] = true
	}
	var errs []error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		have, err := netlink.NeighList(link.Attrs().Index, family)
		if err != nil {
			return err
		}
		for _, h := range have {
			n, ok := neighbourOf(h, family == unix.AF_BRIDGE)
			switch {
			case ok && missing[n]:
				delete(missing, n)
			case ok || h.State&unix.NUD_PERMANENT != 0:
				errs = append(errs, removeNeighbour(h, family))
			}
		}
	}
	for n := range missing {
		errs = append(errs, netlink.NeighSet(n.entry(link.Attrs().Index)))
	}
	return errors.Join(errs...)
}

func removeNeighbour(h netlink.Neigh, family int) error {
	h.Family = family
	if family == unix.AF_BRIDGE {
		h.Flags = unix.NTF_SELF
	}
	if err := netlink.NeighDel(&h); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// neighbourOf reads an entry; it reports false for those that are none of ours:
// multicast and what the kernel learned.
func neighbourOf(h netlink.Neigh, bridge bool) (neighbour, bool) {
	ip, ok := netip.AddrFromSlice(h.IP)
	if !ok || len(h.HardwareAddr) != len(routing.MAC{}) || h.State&unix.NUD_PERMANENT == 0 || ip.IsMulticast() {
		return neighbour{}, false
	}
	return neighbour{bridge: bridge, ip: ip.Unmap(), mac: routing.MAC(h.HardwareAddr)}, true
}

func (n neighbour) entry(device int) *netlink.Neigh {
	e := &netlink.Neigh{
		LinkIndex: device, Family: unix.AF_INET6, State: unix.NUD_PERMANENT, IP: n.ip.AsSlice(), HardwareAddr: n.mac[:],
	}
	if n.ip.Is4() {
		e.Family = unix.AF_INET
	}
	if n.bridge {
		e.Family, e.Flags = unix.AF_BRIDGE, unix.NTF_SELF
	}
	return e
}
