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

// ErrNoUnderlay is the error of a tunnel whose own address no link has.
var ErrNoUnderlay = errors.New("no link has the tunnel's address")

// SetTunnel makes the tunnel as in want, with exactly its peers; the zero value
// removes it. It is called before the Set that has routes through a new tunnel, and
// after the Set that has none left. Its errors are [ErrNoUnderlay], the kernel's, and
// that of the context.
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
	was := t.tunnelled
	t.tunnelled = routing.Tunnel{}
	if err := t.setTunnel(was, want); err != nil {
		return fmt.Errorf("tunnel %s: %w", routing.TunnelDevice, err)
	}
	t.tunnelled = want
	return nil
}

// setTunnel changes no more than peers where they alone differ from what is there.
func (t *Table) setTunnel(was, want routing.Tunnel) error {
	if err := t.open(); err != nil {
		return err
	}
	if t.sure && t.tunnel.Load() != 0 && was.SameDevice(want) {
		return t.changePeers(entriesOf(was.Peers), want.Peers)
	}
	below, err := underlay(want.Local)
	if err != nil {
		return err
	}
	mtu := below.MTU - overhead(want.Local)
	link, err := ensureDevice(want, mtu)
	if err != nil {
		return err
	}
	t.mtus.Store(&mtus{below.Index: below.MTU, link.Attrs().Index: mtu}) // before the kernel tells of what follows
	if err := adjustDevice(link, want, mtu); err != nil {
		return err
	}
	if index := uint32(link.Attrs().Index); index != t.tunnel.Load() {
		t.tunnel.Store(index)
		t.Doubt()
	}
	return errors.Join(setInner(link, want.Inner), t.setPeers(want.Peers))
}

func (t *Table) dropTunnel() error {
	if t.tunnel.Load() == 0 && t.sure {
		return nil
	}
	t.tunnel.Store(0)
	t.tunnelled = routing.Tunnel{}
	t.mtus.Store(nil)
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
func ensureDevice(want routing.Tunnel, mtu int) (netlink.Link, error) {
	link, err := netlink.LinkByName(routing.TunnelDevice)
	if err == nil && !isTunnel(link, want) {
		if err := netlink.LinkDel(link); err != nil {
			return nil, err
		}
		link = nil
	}
	if link == nil || err != nil {
		return addDevice(want, mtu)
	}
	return link, nil
}

func addDevice(want routing.Tunnel, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = routing.TunnelDevice, mtu, want.MAC[:]
	err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: routing.TunnelNetwork, Port: routing.TunnelPort, SrcAddr: want.Local.AsSlice(),
		Learning: false, // each peer has a static entry
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

// mtus are those that links are known to have, by their index.
type mtus map[int]int

// overhead is what the packets of a tunnel with this end bear besides.
func overhead(local netip.Addr) int {
	if local.Is4() {
		return overhead4
	}
	return overhead6
}

// underlay is the link with the tunnel's address.
func underlay(local netip.Addr) (*netlink.LinkAttrs, error) {
	addrs, err := netlink.AddrList(nil, int(family(local)))
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if have, _ := netip.AddrFromSlice(a.IP); have.Unmap() == local {
			link, err := netlink.LinkByIndex(a.LinkIndex)
			if err != nil {
				return nil, err
			}
			return link.Attrs(), nil
		}
	}
	return nil, fmt.Errorf("%w: %v", ErrNoUnderlay, local)
}

// setInner gives the device its addresses. To a link-local one belongs the network of
// them all, without which the kernel takes no peer's as a next hop. It gives a device one
// by itself only where net.ipv6.conf.default.addr_gen_mode lets it.
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
		bits := a.BitLen()
		if a.IsLinkLocalUnicast() {
			bits = 64
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD // nobody else is on this link
		}
		errs = append(errs, netlink.AddrReplace(link, addr))
	}
	return errors.Join(errs...)
}
