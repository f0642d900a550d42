package routing

import (
	"crypto/sha256"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// TunnelDevice is the VXLAN device that overlay uses.
const TunnelDevice = "plinth-vxlan"

// MAC is a hardware address. It compares with ==.
type MAC [6]byte

// Tunnel is the device that overlay sends through: no flooding and no learning,
// each peer has a static entry. Its zero value is no device.
type Tunnel struct {
	VXLAN inventory.VXLAN // that packets are sent with
	Also  inventory.VXLAN // that packets are taken with as well, as peers still or already send them; zero: none
	Local netip.Addr      // this machine's end; its family is that of all peers
	MAC   MAC
	Inner []netip.Addr // ours, sorted: a source for what the node itself sends that is answered through the tunnel, and the device's link-local address
	Peers []Peer       // sorted by Inner
}

// Exists reports whether there is to be a device at all.
func (t Tunnel) Exists() bool { return t.Local.IsValid() }

// Equal reports whether two tunnels are the same.
func (t Tunnel) Equal(o Tunnel) bool { return t.SameDevice(o) && slices.Equal(t.Peers, o.Peers) }

// SameDevice reports whether two tunnels differ in their peers at most.
func (t Tunnel) SameDevice(o Tunnel) bool {
	return t.VXLAN == o.VXLAN && t.Also == o.Also && t.Local == o.Local && t.MAC == o.MAC && slices.Equal(t.Inner, o.Inner)
}

// Peer is another node's end of the tunnel.
type Peer struct {
	Inner netip.Addr // first address of the node's pod CIDR
	MAC   MAC
	Outer netip.Addr // address of the node
}

// NextHop returns the next hop of the route to the peer's pod CIDR: for IPv4 its first address,
// for IPv6 the peer's link-local one. Linux takes no IPv6 next hop on one device that a
// route leads to over another (net/ipv6/route.c, ip6_route_check_nh_onlink), as the
// routers' does to all pods until the last moment of a change from fabric.
func (p Peer) NextHop() netip.Addr {
	if p.Inner.Is4() {
		return p.Inner
	}
	return p.MAC.linkLocal()
}

// linkLocal is the address that the kernel gives to a device by itself (RFC 4291,
// appendix A).
func (m MAC) linkLocal() netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// tunnelOf returns this machine's tunnel without peers. The outer family is IPv4 where
// this machine has it: a VXLAN device has one.
func tunnelOf(view *View) Tunnel {
	local := preferIPv4(view.Self.Addresses)
	if view.Mode != inventory.ModeOverlay || !local.IsValid() {
		return Tunnel{}
	}
	tunnel := Tunnel{VXLAN: view.VXLAN, Also: view.AlsoVXLAN, Local: local, MAC: macOf(local)}
	for _, c := range view.Self.PodCIDRs {
		tunnel.Inner = append(tunnel.Inner, c.Masked().Addr())
	}
	if slices.ContainsFunc(tunnel.Inner, netip.Addr.Is6) {
		tunnel.Inner = append(tunnel.Inner, tunnel.MAC.linkLocal())
	}
	slices.SortFunc(tunnel.Inner, netip.Addr.Compare)
	return tunnel
}

func preferIPv4(addrs []netip.Addr) netip.Addr {
	if i := slices.IndexFunc(addrs, netip.Addr.Is4); i >= 0 {
		return addrs[i]
	}
	if len(addrs) > 0 {
		return addrs[0]
	}
	return netip.Addr{}
}

// peer is the holder of a CIDR as the tunnel knows it. Its end is of the family that it
// prefers itself: where that is not ours, neither hears the other.
func (t *Tunnel) peer(claim claim) (Peer, bool) {
	if !t.Exists() {
		return Peer{}, false
	}
	outer := preferIPv4(claim.node.Addresses)
	if !outer.IsValid() || outer.Is4() != t.Local.Is4() {
		return Peer{}, false
	}
	return Peer{Inner: claim.cidr.Addr(), MAC: macOf(outer), Outer: outer}, true
}

// macOf derives a node's hardware address within the tunnel from its address, so
// that all nodes know it without telling each other: locally administered,
// unicast, and for IPv4 as unique as the address itself.
func macOf(a netip.Addr) MAC {
	if a.Is4() {
		b := a.As4()
		return MAC{0x02, 0x72, b[0], b[1], b[2], b[3]}
	}
	b := a.As16()
	sum := sha256.Sum256(b[:])
	return MAC{0x06, sum[0], sum[1], sum[2], sum[3], sum[4]}
}
