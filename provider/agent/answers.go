package agent

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/taken"
)

// answersAfter is for how long addresses of a pool have to be nobody's until the machine answers, with "unreachable", for those that nobody
// serves. An edit that gives a pool the pods of Nodes reaches agents before the labels by which they learn of these
// ([lb.InPoolLabel]): the controller writes them when it has accepted the edit. And a Node whose label goes may be one of which an
// agent has yet to hear that no pool has it any more. Until all that is heard the machine's other routes count. An answer that is late
// harms nobody, it spares packets to VIPs that are not in use their way back to the router; one that is over pods stops them.
const answersAfter = 10 * time.Second

// answers are the addresses of pools that the machine answers for. What a pool has no more goes at once. What one begins to have comes
// once nothing has changed of pools, or of Nodes that have addresses of them, for answersAfter, and while there is no doubt about
// Nodes. Its zero value knows of no pools; those of the first inventory that it hears of count as had for long: so a machine that
// joins answers as the others do. Of a process that follows another these are in the state on disk.
type answers struct {
	pools   *netipx.IPSet // that are answered for; nil: none was heard of yet
	all     *netipx.IPSet // of the inventory
	read    *inventory.Inventory
	labels  uint64    // the version of what Nodes have of them
	since   time.Time // when either changed
	version uint64    // changes of pools so far
}

// observe takes what is known now, and returns after how long it should be asked again; 0: not before something changes.
func (a *answers) observe(inv *inventory.Inventory, labels uint64, sure bool, now time.Time) (again time.Duration) {
	if inv != a.read {
		a.read = inv
		if all := poolsOf(inv); a.all == nil || !all.Equal(a.all) {
			a.all, a.since = all, now
		}
	}
	if labels != a.labels {
		a.labels, a.since = labels, now
	}
	switch left := answersAfter - now.Sub(a.since); {
	case a.pools == nil, sure && left <= 0:
		a.set(a.all)
	case a.pools.Equal(a.all):
	default:
		a.set(common(a.pools, a.all))
		if sure && !a.pools.Equal(a.all) {
			return left
		}
	}
	return 0
}

func (a *answers) set(pools *netipx.IPSet) {
	if a.pools == nil || !a.pools.Equal(pools) {
		a.pools = pools
		a.version++
	}
}

// resume goes on with what the process before this one answered for; nil: an older agent answered for all pools.
func (a *answers) resume(pools []netip.Prefix) {
	if pools == nil {
		return
	}
	var b netipx.IPSetBuilder
	for _, p := range pools {
		b.AddPrefix(p)
	}
	a.pools = setOf(&b)
}

// common is what two sets have in common.
func common(a, b *netipx.IPSet) *netipx.IPSet {
	var builder netipx.IPSetBuilder
	builder.AddSet(a)
	builder.Intersect(b)
	return setOf(&builder)
}

// answer decides which pools the machine answers for. What is in force while something is missing gains none.
func (a *Agent) answer(missing string, now time.Time) {
	sure := missing == "" && a.sources.isSure(now)
	a.schedule.wakeIn(a.answers.observe(a.inputs.Inventory, a.inputs.version.taken, sure, now))
	if a.inputs.Answered == nil || a.inputs.version.answered != a.answers.version {
		a.inputs.Answered, a.inputs.version.answered = prefixesIn(a.answers.pools), a.answers.version
	}
}

// tellCoarse logs which pools have so many Nodes or pods that more than these are not answered for, and were not.
func tellCoarse(before, now []netip.Prefix) {
	for _, p := range now {
		if !slices.Contains(before, p) {
			slog.Warn("a pool has addresses of so many Nodes that the addresses around these are not answered for, either", "pool", p)
		}
	}
}

// departed is what a Node had of pools that bore [lb.InPoolLabel], and bears it no more, or is gone.
type departed struct {
	had []netip.Prefix
	at  time.Time
}

// takenChanged says that what one Node has of pools is not what it was. What it had counts for a while.
func (s *sources) takenChanged(_ string, old, _ *[]netip.Prefix) {
	s.version.taken++
	if old != nil {
		s.depart(*old)
	}
}

// depart has what Nodes had of pools count for a while: they bear no label any more, or bore it when the process before this one ended.
func (s *sources) depart(had []netip.Prefix) {
	if len(had) > 0 {
		s.departed = append(s.departed, departed{had, time.Now()})
		time.AfterFunc(answersAfter, s.changed)
	}
}

// takenNow is what Nodes have of pools: those that bear the label, and for answersAfter those that bore it. While Nodes are in doubt
// it is only added to. It is asked with the lock held.
func (s *sources) takenNow(now time.Time) []netip.Prefix {
	if s.sure(now) {
		before := len(s.departed)
		s.departed = slices.DeleteFunc(s.departed, func(d departed) bool { return now.Sub(d.at) >= answersAfter })
		if len(s.departed) != before {
			s.version.taken++
		}
	}
	if s.taken != nil && s.takenAt == s.version.taken {
		return s.taken
	}
	all := []netip.Prefix{}
	for _, has := range s.inPools.items {
		all = append(all, has...)
	}
	for _, d := range s.departed {
		all = append(all, d.had...)
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	s.taken, s.takenAt = slices.Compact(all), s.version.taken
	return s.taken
}

// selfSeen notes when this machine's Node is back after it was gone, or is another one: the API server has lost its store, or has an old
// one, and the Nodes of the other machines come back one by one, with the labels that the controller gives them.
func (s *sources) selfSeen(old *node, now node) {
	if wasThere := s.known.Name != ""; wasThere && (old == nil || !now.Created.Equal(old.Created)) {
		s.returned = time.Now()
		time.AfterFunc(s.grace, s.changed)
	}
}

// isSure reports whether Nodes are as they should be: this machine's is there, and was not gone of late.
func (s *sources) isSure(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure(now)
}

// sure is isSure with the lock held.
func (s *sources) sure(now time.Time) bool {
	_, there := s.self.items[s.nodeName]
	return there && (s.returned.IsZero() || now.Sub(s.returned) >= s.grace)
}

// reduceTaken keeps what a Node has that no VIP is given from.
func reduceTaken(obj any) (has []netip.Prefix) {
	for _, t := range taken.By(obj) {
		has = append(has, t.Prefix)
	}
	return has
}
