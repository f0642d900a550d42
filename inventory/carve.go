package inventory

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// Carve gives every rack and machine of next its pod CIDRs: one of each family
// of podNetwork.cidrs. What a person gave by hand stands. What is in force
// stays, so that no block ever moves. A new rack gets the first block that is
// free, a new machine the first that is free in its rack, in the order in which
// they were written. inForce may be nil. It returns no inventory if and only if
// the problems have an error; next is left as it is.
func Carve(next, inForce *Inventory) (*Inventory, Problems) {
	out := next.Clone()
	var problems Problems
	for _, cidr := range out.PodNetwork.CIDRs {
		c := carver{inv: out, cidr: cidr, was: inForce}
		c.carve()
		problems = append(problems, c.problems...)
	}
	out.orderPodCIDRs()
	if problems = problems.Sorted(); len(problems.Errors()) > 0 {
		return nil, problems
	}
	return out, problems
}

// Clone copies an inventory as deep as Carve and Admit change it.
func (inv *Inventory) Clone() *Inventory {
	out := *inv
	out.Routers = slices.Clone(inv.Routers)
	out.Racks = slices.Clone(inv.Racks)
	for i := range out.Racks {
		r := &out.Racks[i]
		r.Machines = slices.Clone(r.Machines)
		r.PodCIDRs = slices.Clone(r.PodCIDRs)
		for j := range r.Machines {
			r.Machines[j].PodCIDRs = slices.Clone(r.Machines[j].PodCIDRs)
		}
	}
	out.Reindex()
	return &out
}

// carver carves one family.
type carver struct {
	inv, was *Inventory
	cidr     netip.Prefix
	racks    blocks // taken from the network
	machines blocks // taken from racks
	kept     []*Machine
	problems Problems
}

func (c *carver) carve() {
	for i := range c.inv.Racks {
		c.keepRack(&c.inv.Racks[i])
	}
	for i := range c.inv.Racks {
		c.adopt(&c.inv.Racks[i])
	}
	for i := range c.inv.Racks {
		c.keepMachines(&c.inv.Racks[i])
	}
	free := c.racks.in(c.cidr, c.inv.PodNetwork.RackPrefix.For(c.cidr.Addr()))
	for i := range c.inv.Racks {
		c.fillRack(&c.inv.Racks[i], free)
	}
	c.strangers()
}

// strangers warns of machines that keep a block from outside their rack's.
func (c *carver) strangers() {
	for _, m := range c.kept {
		rack, _ := c.inv.Rack(m.Rack)
		block, ok := OfFamily(rack.PodCIDRs, c.cidr)
		if p, _ := OfFamily(m.PodCIDRs, c.cidr); !ok || !Covers(block, p) {
			c.warn(m, "keeps a pod CIDR from outside its rack's block until the Node is created anew", p)
		}
	}
}

// keepRack notes the block that a rack has by hand, or gives it that which is in force.
func (c *carver) keepRack(rack *Rack) {
	if p, ok := OfFamily(rack.PodCIDRs, c.cidr); ok {
		c.racks.take(p)
		return
	}
	if c.was == nil {
		return
	}
	old, _ := c.was.Rack(rack.Name)
	if p, ok := OfFamily(old.PodCIDRs, c.cidr); ok && Covers(c.cidr, p) && !c.racks.overlap(p) {
		rack.PodCIDRs, rack.Carved = append(rack.PodCIDRs, p), true
		c.racks.take(p)
	}
}

// adopt gives a rack that has no block that around its machines' own, if it is free.
func (c *carver) adopt(rack *Rack) {
	if _, ok := OfFamily(rack.PodCIDRs, c.cidr); ok {
		return
	}
	for i := range rack.Machines {
		prefix, ok := OfFamily(rack.Machines[i].PodCIDRs, c.cidr)
		if !ok {
			if prefix, ok = c.before(&rack.Machines[i]); !ok {
				continue
			}
		}
		around, err := prefix.Addr().Prefix(c.inv.PodNetwork.RackPrefix.For(prefix.Addr()))
		if err == nil && Covers(c.cidr, around) && Covers(around, prefix) && !c.racks.overlap(around) {
			rack.PodCIDRs, rack.Carved = append(rack.PodCIDRs, around), true
			c.racks.take(around)
		}
		return
	}
}

// keepMachines does the same for the machines of a rack.
func (c *carver) keepMachines(rack *Rack) {
	for i := range rack.Machines {
		machine := &rack.Machines[i]
		given, byHand := OfFamily(machine.PodCIDRs, c.cidr)
		old, had := c.before(machine)
		switch {
		case byHand:
			c.take(rack, machine, given, "overlaps the pod CIDR that another machine has", "a block that is free")
			if had && old != given {
				c.warn(machine, fmt.Sprintf("the Node keeps %s until it is created anew", old), given)
			}
		case had:
			machine.PodCIDRs, machine.Carved = append(machine.PodCIDRs, old), true
			c.kept = append(c.kept, machine)
			c.take(rack, machine, old, "this machine's pod CIDR is given to another machine by hand", "for the other machine a block that is free")
		}
	}
}

// before returns the block that the machine has in force; none where that is the block of
// a machine that only gave it its name.
func (c *carver) before(machine *Machine) (netip.Prefix, bool) {
	if c.was == nil {
		return netip.Prefix{}, false
	}
	old, ok := c.was.Same(*machine)
	if now, _ := c.inv.Same(old); !ok || now.ID != machine.ID {
		return netip.Prefix{}, false
	}
	return OfFamily(old.PodCIDRs, c.cidr)
}

// Same returns the machine that one is in another inventory: that of its ID, or else of its name.
func (inv *Inventory) Same(m Machine) (Machine, bool) {
	ix := inv.find()
	if at, ok := ix.byProvider[m.ProviderID()]; ok {
		return ix.at(at), true
	}
	return inv.Machine(m.Name)
}

// take marks a machine's block as taken, and for racks too where it lies
// outside its own rack's block. Where another machine has it already, that is a problem.
func (c *carver) take(rack *Rack, machine *Machine, prefix netip.Prefix, overlaps, accepted string) {
	if c.machines.overlap(prefix) {
		c.problems = append(c.problems, c.inv.ProblemAt(MachinePath(rack.Name, machine.Name), Problem{
			Code: PodCIDRsOverlap, Value: prefix.String(), Message: overlaps, Accepted: accepted,
		}))
	}
	c.machines.take(prefix)
	if block, ok := OfFamily(rack.PodCIDRs, c.cidr); (!ok || !Covers(block, prefix)) && !c.racks.overlap(prefix) {
		c.racks.take(prefix)
	}
}

func (c *carver) warn(m *Machine, message string, p netip.Prefix) {
	c.problems = append(c.problems, c.inv.ProblemAt(MachinePath(m.Rack, m.Name), Problem{
		Severity: Warning, Code: PodCIDRKept, Message: message, Value: p.String(),
	}))
}

// fillRack carves what the rack and its machines do not have yet.
func (c *carver) fillRack(rack *Rack, free *supply) {
	if !c.needs(rack) {
		return
	}
	block, ok := OfFamily(rack.PodCIDRs, c.cidr)
	if !ok {
		if block, ok = free.next(); !ok {
			c.full(RackPath(rack.Name), NetworkFull, c.cidr, c.inv.PodNetwork.RackPrefix, "racks", "podNetwork.cidrs that are larger, or a longer rackPrefix")
			return
		}
		rack.PodCIDRs, rack.Carved = append(rack.PodCIDRs, block), true
	}
	c.fillMachines(rack, c.machines.in(block, c.inv.PodNetwork.NodePrefix.For(block.Addr())), block)
}

// needs reports whether the rack has machines, or may yet: a rack that is
// retired with all it holds takes no block.
func (c *carver) needs(r *Rack) bool { return r.State != StateRetired }

func (c *carver) fillMachines(rack *Rack, free *supply, block netip.Prefix) {
	for i := range rack.Machines {
		machine := &rack.Machines[i]
		if _, has := OfFamily(machine.PodCIDRs, c.cidr); has || machine.State == StateRetired {
			continue
		}
		p, ok := free.next()
		if !ok {
			c.full(MachinePath(rack.Name, machine.Name), RackFull, block, c.inv.PodNetwork.NodePrefix, "machines", "a shorter rackPrefix, or a longer nodePrefix, for racks that have none yet; or podCIDRs by hand")
			return
		}
		machine.PodCIDRs, machine.Carved = append(machine.PodCIDRs, p), true
	}
}

func (c *carver) full(path string, code Code, block netip.Prefix, lengths PrefixLengths, what, accepted string) {
	length := lengths.For(block.Addr())
	c.problems = append(c.problems, c.inv.ProblemAt(path, Problem{
		Code: code, Value: block.String(), Accepted: accepted, Suggestion: c.roomier(code),
		Message: fmt.Sprintf("has no room for its pods: %s is full, it holds %s of /%d", block, countOf(length-block.Bits(), what), length),
	}))
}

// roomier is the rackPrefix with which all would fit.
func (c *carver) roomier(code Code) string {
	network := c.inv.PodNetwork
	most := len(c.inv.Racks)
	length := c.cidr.Bits() + bitsFor(most)
	if code == RackFull {
		most = 0
		for _, r := range c.inv.Racks {
			most = max(most, len(r.Machines))
		}
		length = network.NodePrefix.For(c.cidr.Addr()) - bitsFor(most)
	}
	if length < c.cidr.Bits() || length > network.NodePrefix.For(c.cidr.Addr()) {
		return ""
	}
	family := "ipv4"
	if c.cidr.Addr().Is6() {
		family = "ipv6"
	}
	return fmt.Sprintf("spec.podNetwork.rackPrefix.%s: %d", family, length)
}

// bitsFor returns the number of bits that number n things.
func bitsFor(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// countOf returns the number of things that fit into so many bits, in words.
func countOf(bits int, what string) string {
	if bits > 30 {
		return "a great many " + what
	}
	return fmt.Sprintf("%d %s", 1<<max(bits, 0), what)
}

// OfFamily returns the prefix of the same family as like.
func OfFamily(ps []netip.Prefix, like netip.Prefix) (netip.Prefix, bool) {
	return Find(ps, func(p netip.Prefix) bool { return p.Addr().Is4() == like.Addr().Is4() })
}

// Covers reports whether all addresses of a prefix are in a block.
func Covers(block, p netip.Prefix) bool { return block.Bits() <= p.Bits() && block.Contains(p.Addr()) }

// orderPodCIDRs puts every list of pod CIDRs into the order of the network's families.
func (inv *Inventory) orderPodCIDRs() {
	if len(inv.PodNetwork.CIDRs) == 0 {
		return
	}
	ipv4First := inv.PodNetwork.CIDRs[0].Addr().Is4()
	order := func(a, b netip.Prefix) int {
		switch a4 := a.Addr().Is4(); {
		case a4 == b.Addr().Is4():
			return netipx.ComparePrefix(a, b)
		case a4 == ipv4First:
			return -1
		}
		return 1
	}
	for i := range inv.Racks {
		slices.SortFunc(inv.Racks[i].PodCIDRs, order)
		for j := range inv.Racks[i].Machines {
			slices.SortFunc(inv.Racks[i].Machines[j].PodCIDRs, order)
		}
	}
}

// Uncarved is the inventory as it was before [Carve]: with the blocks that were
// given by hand alone.
func (inv *Inventory) Uncarved() *Inventory {
	out := inv.Clone()
	for i := range out.Racks {
		r := &out.Racks[i]
		if r.Carved {
			r.PodCIDRs, r.Carved = nil, false
		}
		for j := range r.Machines {
			if m := &r.Machines[j]; m.Carved {
				m.PodCIDRs, m.Carved = nil, false
			}
		}
	}
	return out
}
