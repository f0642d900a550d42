package inventory

import (
	"net/netip"
	"slices"
)

// Subnet returns the subnets of its rack that the machine has an address in.
func (inv *Inventory) Subnet(m Machine) []netip.Prefix {
	rack, _ := inv.Rack(m.Rack)
	var out []netip.Prefix
	for _, s := range rack.Subnets {
		if covers(s, m.Addresses) {
			out = append(out, s)
		}
	}
	return out
}

// SameSubnet reports whether two machines reach each other without a router:
// one entry of their racks' subnets covers an address of each, or, where
// neither rack has subnets, they are of one rack. Of a rack that is not in the
// inventory, as in another rack's slice, the subnets are taken to be the same.
func (inv *Inventory) SameSubnet(machine, other Machine) bool {
	ra, knownA := inv.Rack(machine.Rack)
	rb, knownB := inv.Rack(other.Rack)
	if machine.Rack == other.Rack && len(ra.Subnets) == 0 {
		return true
	}
	for _, s := range slices.Concat(ra.Subnets, rb.Subnets) {
		shared := (!knownA || slices.Contains(ra.Subnets, s)) && (!knownB || slices.Contains(rb.Subnets, s))
		if shared && covers(s, machine.Addresses) && covers(s, other.Addresses) {
			return true
		}
	}
	return false
}

// covers reports whether one of the addresses is in the prefix.
func covers(p netip.Prefix, addrs []netip.Addr) bool {
	return slices.ContainsFunc(addrs, p.Contains)
}
