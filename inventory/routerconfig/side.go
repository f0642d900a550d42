package routerconfig

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// side is the router's side of all its sessions, in no language yet.
type side struct {
	inventory string
	router    inventory.Router
	filters   []*filter
	groups    []*group
	// aggregates are blocks of racks that the router tells its other neighbours, in
	// the order of the racks; carved are the racks that might have some.
	aggregates []aggregate
	carved     []string
	paths      int      // equal paths that the router must be able to use
	notes      []string // what a person must know or do, in whole sentences
}

// group is the neighbours of one rack whose sessions differ in nothing but the
// machine's addresses.
type group struct {
	name    string // PLINTH_<RACK>
	rack    string
	terms   inventory.Session  // without what differs from machine to machine
	carried inventory.Families // by any of the sessions; both ends settle on what they share (RFC 4760)
	filter  *filter
	members []member
	subnets []netip.Prefix // of the rack, in the family that the sessions run over; asked for by Options.Dynamic
}

// member is one neighbour.
type member struct {
	machine string
	addr    netip.Addr
	place   string // rack, and unit where it is known
}

// description returns the text by which the router's operator finds the machine: k8s/w1 r1:U12.
func (m member) description() string { return "k8s/" + m.machine + " " + m.place }

// id names the machine where only letters, digits and "_" will do.
func (m member) id() string { return word(m.machine) }

// over4 reports whether the sessions run over IPv4.
func (g *group) over4() bool { return g.terms.RouterAddr.Is4() }

// learns reports whether the machines take default routes from the router.
func (g *group) learns() bool { return g.terms.Learn == inventory.LearnDefault }

// limit returns the number of prefixes of a family that one machine may announce.
func (g *group) limit(v4 bool) int {
	if v4 {
		return g.filter.limit4
	}
	return g.filter.limit6
}

// carries reports whether the sessions carry a family.
func (g *group) carries(v4 bool) bool {
	return v4 && g.carried.IPv4 || !v4 && g.carried.IPv6
}

// newSide gathers what the router must know.
func newSide(inv *inventory.Inventory, router inventory.Router) *side {
	made := &side{inventory: inv.Name, router: router}
	for _, rack := range inv.Racks {
		made.addRack(inv, rack)
	}
	made.nameFilters()
	made.nameGroups()
	made.countPaths()
	made.warn(inv)
	made.warnOfAggregates()
	return made
}

// addRack adds a group for each kind of session that machines of the rack have.
func (s *side) addRack(inv *inventory.Inventory, rack inventory.Rack) {
	var groups []*group
	for _, machine := range rack.Machines {
		for _, session := range inv.Sessions(machine) {
			if session.Router != s.router.Name || machine.State == inventory.StateRetired {
				continue
			}
			terms := termsOf(session)
			i := slices.IndexFunc(groups, func(g *group) bool { return g.terms == terms })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &group{rack: rack.Name, terms: terms, filter: s.filterFor(inv, rack, terms), subnets: subnetsOf(rack, terms)})
			}
			groups[i].add(machine, session)
		}
	}
	s.groups = append(s.groups, groups...)
	s.addAggregates(inv, rack, groups)
}

// subnetsOf are the subnets of a rack that its sessions come from.
func subnetsOf(rack inventory.Rack, terms inventory.Session) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(rack.Subnets), func(p netip.Prefix) bool { return p.Addr().Is4() != terms.RouterAddr.Is4() })
}

// dynamic has ranges take the place of neighbours, or says why they cannot: a range
// has one set of terms, and two of them must not meet.
func (s *side) dynamic(d dialect) error {
	if !d.ranges {
		return fmt.Errorf("%w: %s has no word for neighbours of a range that was tried; leave --dynamic out", ErrCannot, d.name)
	}
	for i, group := range s.groups {
		if len(group.subnets) == 0 {
			return fmt.Errorf("%w: rack %s has no subnets of the family of %v to take neighbours from; leave --dynamic out", ErrCannot, group.rack, group.terms.RouterAddr)
		}
		for _, other := range s.groups[:i] {
			if overlap(group.subnets, other.subnets) {
				return fmt.Errorf("%w: the sessions of racks %s and %s differ, and come from the same subnet; leave --dynamic out", ErrCannot, other.rack, group.rack)
			}
		}
		for _, m := range group.members {
			if !slices.ContainsFunc(group.subnets, func(p netip.Prefix) bool { return p.Contains(m.addr) }) {
				return fmt.Errorf("%w: machine %s has the address %v, which is in none of rack %s's subnets; leave --dynamic out", ErrCannot, m.machine, m.addr, group.rack)
			}
		}
		group.members = nil
	}
	s.note("Any address of the racks' subnets may become a neighbour. What it may announce is the same.")
	return nil
}

func overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(p netip.Prefix) bool { return slices.ContainsFunc(b, p.Overlaps) })
}

// termsOf is the session without what differs from machine to machine.
func termsOf(s inventory.Session) inventory.Session {
	s.Local, s.NextHop4, s.NextHop6 = netip.Addr{}, netip.Addr{}, netip.Addr{}
	s.Families = inventory.Families{}
	return s
}

// add makes a machine a member.
func (g *group) add(m inventory.Machine, s inventory.Session) {
	g.members = append(g.members, member{machine: m.Name, addr: s.Local, place: place(m)})
	g.carried.IPv4 = g.carried.IPv4 || s.Families.IPv4
	g.carried.IPv6 = g.carried.IPv6 || s.Families.IPv6
}

// filterFor returns the filter of a rack's machines; racks with the same share one.
func (s *side) filterFor(inv *inventory.Inventory, rack inventory.Rack, terms inventory.Session) *filter {
	filter := newFilter(inv, rack, terms)
	for _, known := range s.filters {
		if known.equal(filter) {
			return known
		}
	}
	s.filters = append(s.filters, filter)
	return filter
}

// nameFilters calls the only filter PLINTH, and several by the first rack of each.
func (s *side) nameFilters() {
	if len(s.filters) == 1 {
		s.filters[0].name = "PLINTH"
		return
	}
	taken := map[string]bool{}
	for _, g := range s.groups {
		if g.filter.name == "" {
			g.filter.name = free("PLINTH_"+strings.ToUpper(word(g.rack)), taken)
		}
	}
}

// nameGroups names each group by its rack, and by its family where a rack has
// sessions over both.
func (s *side) nameGroups() {
	both := map[string]bool{} // racks with sessions over both families
	for _, g := range s.groups {
		both[g.rack] = both[g.rack] || slices.ContainsFunc(s.groups, func(o *group) bool {
			return o.rack == g.rack && o.over4() != g.over4()
		})
	}
	taken := map[string]bool{}
	for _, g := range s.groups {
		name := "PLINTH_" + strings.ToUpper(word(g.rack))
		if both[g.rack] {
			name += either(g.over4(), "_V4", "_V6")
		}
		g.name = free(name, taken)
	}
}

// free returns the name, with a number after it where it is taken.
func free(name string, taken map[string]bool) string {
	unique := name
	for i := 2; taken[unique]; i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	taken[unique] = true
	return unique
}

// word keeps letters and digits of a name and puts "_" for the rest.
func word(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, name)
}

func place(m inventory.Machine) string {
	if m.Unit == 0 {
		return m.Rack
	}
	return fmt.Sprintf("%s:U%d", m.Rack, m.Unit)
}

// countPaths asks for as many equal paths as there are machines, rounded up to a
// power of two and at least 16, so that a few more machines change nothing.
func (s *side) countPaths() {
	machines := map[string]bool{}
	for _, g := range s.groups {
		for _, m := range g.members {
			machines[m.machine] = true
		}
	}
	for s.paths = 16; s.paths < len(machines); {
		s.paths *= 2
	}
}

// ebgp and ibgp report whether any session is of that kind.
func (s *side) ebgp() bool { return s.any(func(g *group) bool { return !g.terms.IBGP() }) }
func (s *side) ibgp() bool { return s.any(func(g *group) bool { return g.terms.IBGP() }) }

// carries reports whether any session carries the family.
func (s *side) carries(v4 bool) bool { return s.any(func(g *group) bool { return g.carries(v4) }) }

// learns reports whether any machine takes default routes from the router, and tellsNothing
// whether any takes none.
func (s *side) learns() bool       { return s.any((*group).learns) }
func (s *side) tellsNothing() bool { return s.any(func(g *group) bool { return !g.learns() }) }

func (s *side) any(of func(*group) bool) bool { return slices.ContainsFunc(s.groups, of) }

// profiles are the BFD profiles in use, by name.
func (s *side) profiles() []inventory.BFDProfile {
	var out []inventory.BFDProfile
	for _, g := range s.groups {
		if p := g.terms.BFD; p.Name != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b inventory.BFDProfile) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// warn notes what the inventory alone cannot settle.
func (s *side) warn(inv *inventory.Inventory) {
	if len(s.groups) == 0 {
		s.notes = append(s.notes, "No machine of the inventory has a session with this router.")
	}
	unknownPods := s.any(func(g *group) bool { return g.terms.PodCIDRs }) && len(inv.PodNetwork.CIDRs) == 0
	if unknownPods {
		s.notes = append(s.notes, "Machines announce pod CIDRs that somebody else gives them: podNetwork has no cidrs, so only those that machines have in the inventory are let in.")
	}
}
