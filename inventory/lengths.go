package inventory

import "net/netip"

// Default lengths of the blocks that racks and machines get.
const (
	rackPrefix4, nodePrefix4 = 20, 24
	rackPrefix6, nodePrefix6 = 56, 64
)

// set puts a length in for the family of a.
func (p *PrefixLengths) set(a netip.Addr, bits int) {
	if a.Is4() {
		p.IPv4 = bits
	} else {
		p.IPv6 = bits
	}
}

// SetDefaultLengths fills in the lengths that nobody gave for the family of cidr,
// so that they fit: a block of the usual size for each machine, at least 16
// blocks in all, and for racks a block halfway between.
func (p *PodNetwork) SetDefaultLengths(cidr netip.Prefix) {
	addr, bits := cidr.Addr(), cidr.Bits()
	rack, node := rackPrefix4, nodePrefix4
	if addr.Is6() {
		rack, node = rackPrefix6, nodePrefix6
	}
	givenRack, givenNode := p.RackPrefix.For(addr), p.NodePrefix.For(addr)
	if givenNode == 0 {
		givenNode = min(max(node, bits+4, givenRack), addr.BitLen())
	}
	if givenRack == 0 {
		givenRack = rack
		if rack < bits+2 || rack > givenNode {
			givenRack = (bits + givenNode + 1) / 2
		}
	}
	p.RackPrefix.set(addr, givenRack)
	p.NodePrefix.set(addr, givenNode)
}
