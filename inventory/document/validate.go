package document

import (
	"fmt"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// validation checks what no single value can: names that are used twice, what
// refers to what, and everything that must not overlap.
type validation struct {
	*decoder
	raw   *rawSpec
	inv   *inventory.Inventory
	hosts []scalar[netip.Addr] // of all machines and routers, sorted
	bare  []bareRack           // those without subnets

	unwritable map[string]bool // routers that were told so already
}

// hostAddresses returns the addresses of all machines and routers, sorted.
func (v *validation) hostAddresses() []scalar[netip.Addr] {
	var out []scalar[netip.Addr]
	for _, r := range v.raw.allRouters() {
		out = append(out, r.allAddresses()...)
	}
	for _, m := range v.raw.allMachines() {
		out = append(append(out, m.Addresses.v...), m.ExternalAddresses.v...)
	}
	slices.SortStableFunc(out, func(a, b scalar[netip.Addr]) int { return a.v.Compare(b.v) })
	return out
}

// hostAt is the place among them of an address, and whether one has it.
func (v *validation) hostAt(a netip.Addr) (int, bool) {
	return slices.BinarySearchFunc(v.hosts, a, func(h scalar[netip.Addr], a netip.Addr) int { return h.v.Compare(a) })
}

// ownerOf names the machine or router whose address was written there.
func (v *validation) ownerOf(address *yaml.Node) string {
	is := func(a scalar[netip.Addr]) bool { return a.node == address }
	for _, r := range v.raw.allRouters() {
		if slices.ContainsFunc(r.allAddresses(), is) {
			return "router " + r.Name.v
		}
	}
	for _, m := range v.raw.allMachines() {
		if slices.ContainsFunc(m.Addresses.v, is) || slices.ContainsFunc(m.ExternalAddresses.v, is) {
			return "machine " + m.Name.v
		}
	}
	return "a machine or router"
}

// nextAddress is the first address after a that no machine or router has; ""
// where there is none near.
func (v *validation) nextAddress(a netip.Addr) string {
	const near = 256
	i, _ := v.hostAt(a)
	next := a.Next()
	for _, h := range v.hosts[i:min(i+near, len(v.hosts))] {
		if h.v == next {
			next = next.Next()
		}
	}
	if _, taken := v.hostAt(next); taken || !next.IsValid() {
		return ""
	}
	return next.String()
}

// rackWith names the rack in which the address would be right.
func (v *validation) rackWith(a netip.Addr) string {
	for _, r := range v.inv.Racks {
		if slices.ContainsFunc(r.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
			return "rack " + r.Name
		}
	}
	return ""
}

// networksOf are the rack's subnets, and the networks of addresses of its machines that none of them has.
func (v *validation) networksOf(rack *rawRack) []netip.Prefix {
	out, all := values(rack.Subnets), values(list[scalar[netip.Prefix]]{v: v.raw.allSubnets()})
	for m := range rack.Machines.each() {
		for _, a := range m.Addresses.v {
			if n, ok := networkOf(a.v, all); ok && !covered(out, a.v) {
				out = append(out, n)
			}
		}
	}
	return out
}

// bareRacks are the racks that name no subnet.
func (v *validation) bareRacks() (out []bareRack) {
	for r := range v.raw.Racks.each() {
		if len(r.Subnets.v) == 0 {
			out = append(out, bareRack{r, v.networksOf(r)})
		}
	}
	return out
}

// claim refuses a value that has an owner already.
func (v *validation) claim(seen map[string]*yaml.Node, value string, node *yaml.Node, r refusal) bool {
	first, taken := seen[value]
	if taken {
		v.refuse(node, r, first)
		return false
	}
	seen[value] = node
	return true
}

// carried looks at the sessions of every machine.
func (v *validation) carried() reach {
	out := reach{}
	for _, rack := range v.inv.Racks {
		for _, m := range rack.Machines {
			if out.complete(rack) {
				break
			}
			for _, s := range v.inv.Sessions(m) {
				key := [2]string{rack.Name, s.Router}
				out[key] = out[key].With(s.Families)
			}
		}
	}
	return out
}

// networkFor names the place to write the subnets that a pool is to be announced on and that are none yet; "" where no machine is near it.
func (v *validation) networkFor(p inventory.Pool) string {
	for _, rack := range v.bare {
		if slices.ContainsFunc(rack.networks, p.Overlaps) {
			return fmt.Sprintf("spec.racks[%s].%s", rack.Name.v, subnetsLine(rack.networks))
		}
	}
	return ""
}

func (v *validation) routerNames() []string {
	return converted(v.inv.Routers, func(r inventory.Router) string { return r.Name })
}

// bareRack is a rack that names no subnet, and the networks that its machines are in.
type bareRack struct {
	*rawRack
	networks []netip.Prefix
}

// networkOf is the network that an address of a machine is most likely in: one of the subnets that holds it, or else one as large as
// most are, if no subnet overlaps that. It reports whether there is one.
func networkOf(addr netip.Addr, subnets []netip.Prefix) (netip.Prefix, bool) {
	if i := slices.IndexFunc(subnets, func(s netip.Prefix) bool { return s.Contains(addr) }); i >= 0 {
		return subnets[i], true
	}
	bits := 24
	if addr.Is6() {
		bits = 64
	}
	usual := netip.PrefixFrom(addr, bits).Masked()
	return usual, special(addr) == "" && !slices.ContainsFunc(subnets, usual.Overlaps)
}

// nodeOf is the node of the first of some scalars with a value; nil: none has it.
func nodeOf[T comparable](all []scalar[T], value T) *yaml.Node {
	for _, s := range all {
		if s.v == value {
			return s.node
		}
	}
	return nil
}

// covered reports whether one of the networks has the address.
func covered(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// givesOn reports whether the pool gives an address of one of its ranges that lies in the subnet.
func givesOn(p inventory.Pool, r inventory.Range, subnet netip.Prefix) bool {
	given := inventory.SetOf([]inventory.Range{r}, p.Exclude)
	return given.OverlapsPrefix(subnet)
}

// special names the kinds of address that are not for hosts.
func special(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "the unspecified address"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsMulticast():
		return "a multicast address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.Is4() && addr.As4()[0] >= 240:
		return "a reserved address"
	case addr.Is4() && addr.As4()[0] == 0:
		return "an address of this network alone"
	}
	return ""
}

// subnetsLine returns the line of a rack that makes the networks its subnets.
func subnetsLine(networks []netip.Prefix) string { return "subnets: " + flowList(networks) }
