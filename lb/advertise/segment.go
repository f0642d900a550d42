package advertise

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Segment is a subnet on which VIPs are announced, as one of its machines knows it.
type Segment struct {
	Self     string
	Machines []Neighbor // this one included, in the inventory's order
	// Before are the machines that were active until lately, in the inventory's order: machines that have
	// not heard of the edit yet go by them. Empty: those that are active now.
	Before  []string
	Witness Witness
	// Resumed is the time at which this machine last went on after it had stood still for so long that others may have taken what it
	// had, or began.
	Resumed time.Duration
	// Lingers: this machine is leaving, and answers on for what it has until another one does.
	Lingers bool
}

// Neighbor is a machine of a segment.
type Neighbor struct {
	Name     string
	Active   bool     // by the inventory
	Standing Standing // of this machine itself: [Up] or [Leaving]
}

// Quorum is the right by which a machine answers on a segment.
type Quorum int

// The rights, the least first.
const (
	NoQuorum Quorum = iota // it may be cut off: it answers for nothing
	Careful                // it may be the only one left: it answers for VIPs that no other answers for
	Majority               // the machines that are not with it are no majority
)

func (q Quorum) String() string { return [...]string{"none", "careful", "majority"}[q] }

// Quorum returns the right of this machine. The majority is more than half of the machines that are
// active; of two halves it is that with the first machine of the inventory. While an edit of the active
// machines is young it takes the majority of both: so of two that know different inventories at
// most one has it. A machine that an edit brought counts once it was heard, or was waited for: until then
// it answers for nothing.
func (s Segment) Quorum() Quorum {
	young := len(s.Before) > 0
	active := s.names(func(m Neighbor) bool {
		isNew := young && m.Standing == Unheard && !slices.Contains(s.Before, m.Name)
		return m.Active && !isNew || young && s.Lingers && m.Name == s.Self
	})
	if len(active) == 0 && s.Lingers {
		active = []string{s.Self} // nobody else is to have what it had
	}
	switch {
	case s.hasMajorityOf(active) && (len(s.Before) == 0 || s.hasMajorityOf(s.Before)):
		return Majority
	case s.Witness == WitnessAnswers:
		return Careful
	}
	return NoQuorum
}

func (s Segment) hasMajorityOf(names []string) bool {
	seen, first := 0, false
	for i, name := range names {
		if s.sees(name) {
			seen++
			first = first || i == 0
		}
	}
	return 2*seen > len(names) || 2*seen == len(names) && first
}

// sees reports whether a machine is on the same side of a cut of the segment.
func (s Segment) sees(name string) bool {
	m, known := s.machine(name)
	return known && (m.Standing == Up || m.Standing == Leaving || m.Standing == Holding)
}

func (s Segment) machine(name string) (Neighbor, bool) {
	return inventory.Find(s.Machines, func(m Neighbor) bool { return m.Name == name })
}

// names lists the machines for which a condition holds, in the inventory's order.
func (s Segment) names(are func(Neighbor) bool) (names []string) {
	for _, m := range s.Machines {
		if are(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// turn returns the delay after the first machine with which this one probes VIPs that each may have left to another: two that
// probe at once take them at once.
func (s Segment) turn() time.Duration {
	place := slices.IndexFunc(s.Machines, func(m Neighbor) bool { return m.Name == s.Self })
	return time.Duration(min(max(place, 0), 6)) * 250 * time.Millisecond
}

// answering returns the segment without the machines whose agents are away for a moment: they may keep
// the VIPs that they had, and get no new ones.
func (s Segment) answering() Segment {
	s.Machines = slices.Clone(s.Machines)
	for i, m := range s.Machines {
		if m.Standing == Holding {
			s.Machines[i].Standing = Down
		}
	}
	return s
}

// isNewborn reports whether it is too early to know the machines that are there.
func (s Segment) isNewborn() bool {
	return slices.ContainsFunc(s.Machines, func(m Neighbor) bool { return m.Active && m.Standing == Unheard })
}

// LinkVIP is a VIP of a segment, as all its machines see it.
type LinkVIP struct {
	VIP    netip.Addr
	Homes  []string // machines in the controller's order; may be empty
	Pinned bool     // the first of them was asked for by the Service
	May    []string // machines that an advertisement of the pool announces it from; nil: all
	Local  bool     // externalTrafficPolicy: Local
	At     []string // with Local, the machines with an endpoint that can take traffic
	Served bool     // an endpoint anywhere can take traffic
	// NotFollowed: none can, and some could if the proxy followed their EndpointSlices.
	NotFollowed bool
}

// order lists the machines that may own the VIP: its homes, then the others by rendezvous hashing
// (Thaler and Ravishankar, 1998), so that each VIP has an order of its own.
func (v LinkVIP) order(seg Segment) []string {
	var homes []string
	for _, name := range v.Homes {
		if _, known := seg.machine(name); known && v.allows(name) && !slices.Contains(homes, name) {
			homes = append(homes, name)
		}
	}
	others := seg.names(func(m Neighbor) bool { return v.allows(m.Name) && !slices.Contains(homes, m.Name) })
	slices.SortFunc(others, func(a, b string) int { return preference(v.VIP, a, b) })
	return append(homes, others...)
}

func (v LinkVIP) allows(name string) bool { return v.May == nil || slices.Contains(v.May, name) }

// preference sorts machines by rendezvous hashing for an address, the preferred one first.
func preference(vip netip.Addr, a, b string) int {
	return cmp.Or(cmp.Compare(rendezvous(vip, b), rendezvous(vip, a)), cmp.Compare(a, b))
}

func rendezvous(vip netip.Addr, machine string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(machine))
	_, _ = h.Write(vip.AsSlice())
	x := h.Sum64() // FNV changes little in its high bits for the last bytes: mix as SplitMix64 does
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Owner names the machine that is to answer for a VIP, or the reason why none is. incumbent is the one that does, as far as is known;
// empty: none is known to.
//
// The machine that has a VIP keeps it while it can serve it, so that a machine that comes back breaks no
// connection; only a VIP that is pinned to a machine goes back to that. Otherwise it is the first in the order
// that can.
func (s Segment) Owner(vip LinkVIP, incumbent string) (owner string, none lb.Reason) {
	switch {
	case !vip.Served:
		return "", noEndpoint(vip.NotFollowed)
	case vip.Local && len(vip.At) == 0:
		return "", lb.NoLocalEndpoint
	}
	order := vip.order(s)
	switch {
	case vip.Pinned && len(vip.Homes) > 0 && s.canOwn(vip, vip.Homes[0], incumbent):
		return vip.Homes[0], ""
	case slices.Contains(order, incumbent) && s.canOwn(vip, incumbent, incumbent):
		return incumbent, ""
	}
	for _, name := range order {
		if s.canOwn(vip, name, incumbent) {
			return name, ""
		}
	}
	if vip.Local && !slices.ContainsFunc(vip.At, s.sees) {
		return "", lb.NoLocalEndpoint
	}
	return "", lb.MachineNotActive
}

// canOwn reports whether a machine can serve the VIP. One whose agent is away for a moment keeps what it
// has, and is given nothing.
func (s Segment) canOwn(v LinkVIP, name, incumbent string) bool {
	m, _ := s.machine(name)
	there := m.Standing == Up || m.Standing == Holding && (incumbent == name || incumbent == "")
	return there && s.serves(v, name)
}

// serves reports whether a machine could serve the VIP if it is there.
func (s Segment) serves(v LinkVIP, name string) bool {
	m, known := s.machine(name)
	active := m.Active || s.Lingers && name == s.Self // it was until now
	return known && active && v.Served && v.allows(name) && (!v.Local || slices.Contains(v.At, name))
}
