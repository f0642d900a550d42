package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// The bytes that VXLAN adds to a packet: the inner Ethernet header, its own, UDP's
// and the outer IP header (RFC 7348, section 5).
const (
	overhead4 = 14 + 8 + 8 + 20
	overhead6 = 14 + 8 + 8 + 40
)

// deviceNames are the names that the tunnel's device can have. The second is for the time of a
// change of the port or network, which no device can change.
var deviceNames = []string{routing.TunnelDevice, routing.TunnelDevice + "-2"}

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
	if t.synced && t.tunnelled.Equal(want) {
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
	if t.synced && t.tunnel.Load() != 0 && was.SameDevice(want) {
		return t.changePeers(entriesOf(was.Peers), want.Peers)
	}
	below, err := underlay(want.Local)
	if err != nil {
		return err
	}
	mtu := below.MTU - overhead(want.Local)
	devices, err := ensureDevices(want, mtu)
	if len(devices) == 0 {
		return err
	}
	known := mtus{below.Index: below.MTU}
	for _, d := range devices {
		known[d.Attrs().Index] = mtu
	}
	t.mtus.Store(&known) // before the kernel tells of what follows
	for _, d := range devices {
		err = errors.Join(err, adjustDevice(d, want, mtu))
	}
	if index := uint32(devices[0].Attrs().Index); index != t.tunnel.Load() {
		t.tunnel.Store(index)
		t.Invalidate()
	}
	return errors.Join(err, setInner(devices[0], want.Inner), t.setPeers(want.Peers))
}

func (t *Table) dropTunnel() error {
	if t.tunnel.Load() == 0 && t.synced {
		return nil
	}
	t.tunnel.Store(0)
	t.tunnelled = routing.Tunnel{}
	t.mtus.Store(nil)
	return removeDevice()
}

// devices are the links that bear a name of the tunnel's, the first name first.
func devices() (all []netlink.Link, err error) {
	for _, name := range deviceNames {
		link, err := netlink.LinkByName(name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, link)
	}
	return all, nil
}

// deviceOf returns the index of the device that a tunnel sends through; of any that bears
// its name, where there is to be none or that one is gone; 0: there is none.
func deviceOf(tunnel routing.Tunnel) (uint32, error) {
	all, err := devices()
	if len(all) == 0 {
		return 0, err
	}
	i := slices.IndexFunc(all, func(l netlink.Link) bool {
		x, usable := vxlanOf(l, tunnel.Local)
		return usable && x == tunnel.VXLAN
	})
	return uint32(all[max(i, 0)].Attrs().Index), nil
}

// removeDevice deletes the tunnel, which bears our name.
func removeDevice() error {
	all, err := devices()
	for _, link := range all {
		err = errors.Join(err, netlink.LinkDel(link))
	}
	return err
}

// ensureDevices returns the device that packets are sent through, and after it the one that
// they are taken from as well, if there is to be one. What is there of another kind goes. With
// an error it returns the first one, if only the second could not be made.
func ensureDevices(want routing.Tunnel, mtu int) (all []netlink.Link, err error) {
	have, err := devices()
	if err != nil {
		return nil, err
	}
	free := slices.Clone(deviceNames)
	found := map[inventory.VXLAN]netlink.Link{}
	for _, link := range have {
		vxlan, usable := vxlanOf(link, want.Local)
		if !usable || vxlan != want.VXLAN && vxlan != want.Also {
			if err := netlink.LinkDel(link); err != nil {
				return nil, err
			}
			continue
		}
		found[vxlan] = link
		free = slices.DeleteFunc(free, func(name string) bool { return name == link.Attrs().Name })
	}
	for _, vxlan := range []inventory.VXLAN{want.VXLAN, want.Also} {
		if vxlan == (inventory.VXLAN{}) {
			continue
		}
		link := found[vxlan]
		if link == nil {
			if link, err = addDevice(free[0], want, vxlan, mtu); err != nil {
				return all, err
			}
			free = free[1:]
		}
		all = append(all, link)
	}
	return all, takeFirstName(all)
}

// takeFirstName gives the tunnel the name that people know once it is the only one. Linux
// before 6.2 renames no device that is up: it keeps the second name until the next change.
func takeFirstName(all []netlink.Link) error {
	if len(all) != 1 || all[0].Attrs().Name == deviceNames[0] {
		return nil
	}
	if err := netlink.LinkSetName(all[0], deviceNames[0]); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	return nil
}

func addDevice(name string, want routing.Tunnel, vxlan inventory.VXLAN, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, want.MAC[:]
	err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(vxlan.VNI), Port: int(vxlan.Port), SrcAddr: want.Local.AsSlice(),
		Learning: false, // each peer has a static entry
		UDPCSum:  true,  // most network cards work checksums out for free, and receivers then merge packets (GRO)
	})
	if err != nil {
		return nil, whose(err, vxlan)
	}
	return netlink.LinkByName(name)
}

// vxlanOf returns the port and VNI of a device's packets, and whether it can be used with this address:
// the settings that cannot be changed on it are right.
func vxlanOf(link netlink.Link, local netip.Addr) (x inventory.VXLAN, usable bool) {
	v, ok := link.(*netlink.Vxlan)
	if !ok {
		return x, false
	}
	at, _ := netip.AddrFromSlice(v.SrcAddr)
	return inventory.VXLAN{Port: uint16(v.Port), VNI: uint32(v.VxlanId)}, !v.Learning && at.Unmap() == local
}

// whose names the device that has the port already, or the network at it: the kernel shares
// a port among devices that agree on the rest, and opens it once a device is up.
func whose(err error, vxlan inventory.VXLAN) error {
	if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	holder := "another program of this machine"
	if names := vxlansAt(vxlan.Port); len(names) > 0 {
		holder = strings.Join(names, " and ")
	}
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("VNI %d at UDP port %d is that of %s: set podNetwork.vxlan.vni or port in the inventory to another that is free on all machines: %w", vxlan.VNI, vxlan.Port, holder, err)
	}
	return fmt.Errorf("UDP port %d is that of %s: set podNetwork.vxlan.port in the inventory to another that is free on all machines: %w", vxlan.Port, holder, err)
}

// vxlansAt are the VXLAN devices of other programs at a port.
func vxlansAt(port uint16) (names []string) {
	links, _ := netlink.LinkList()
	for _, link := range links {
		vxlan, ok := link.(*netlink.Vxlan)
		switch {
		case !ok, vxlan.Port != int(port), slices.Contains(deviceNames, vxlan.Name):
		case vxlan.FlowBased:
			names = append(names, fmt.Sprintf("VXLAN device %s (of any VNI)", vxlan.Name))
		default:
			names = append(names, fmt.Sprintf("VXLAN device %s (VNI %d)", vxlan.Name, vxlan.VxlanId))
		}
	}
	return names
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
		x, _ := vxlanOf(link, want.Local)
		if refused := netlink.LinkSetUp(link); refused != nil {
			err = errors.Join(err, whose(refused, x))
		}
	}
	return err
}

// mtus holds the known MTUs of links, by their index.
type mtus map[int]int

// overhead returns the bytes that a tunnel with this end adds to a packet.
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
