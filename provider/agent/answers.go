package agent

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/taken"
)

// answersAfter is for how long addresses of a pool have to be nobody's until the machine answers, with "unreachable", for those that nobody
// serves. An edit that gives a pool the pods of Nodes reaches agents before the labels by which they learn of these
// ([lb.InPoolLabel]): the controller writes them when it has accepted the edit, and may end in between, so that another one has to
// lead first, which takes the 15 s of a lease and a start. An answer that is late harms nobody, it spares packets to VIPs that are
// not in use their way back to the router; one that is over pods stops them.
const answersAfter = time.Minute

// answersWithin is for how long changes of labels put answers off: a kubelet may change its own Node's all the time.
const answersWithin = 5 * time.Minute

// answers are the addresses of pools that the machine answers for. What a pool has no more goes at once. What one begins to have comes
// once nothing has changed of pools, or of Nodes that have addresses of them, for answersAfter, or of pools for answersWithin, and while
// there is no doubt about Nodes. Its zero value knows of no pools; those of the first inventory that it hears of count as had for long:
// so a machine that joins answers as the others do. Of a process that follows another these are in the state on disk.
type answers struct {
	pools   *netipx.IPSet // that are answered for; nil: none was heard of yet
	all     *netipx.IPSet // of the inventory
	read    *inventory.Inventory
	labels  uint64    // the version of what Nodes have of them
	since   time.Time // when either changed
	bounded time.Time // when pools changed, or Nodes were in doubt last
	version uint64    // changes of pools so far
}

// observe takes what is known now, and returns after how long it should be asked again; 0: not before something changes.
func (a *answers) observe(inv *inventory.Inventory, labels uint64, sure bool, now time.Time) (again time.Duration) {
	if inv != a.read {
		a.read = inv
		if all := poolsOf(inv); a.all == nil || !all.Equal(a.all) {
			a.all, a.since, a.bounded = all, now, now
		}
	}
	if !sure {
		a.bounded = now
	}
	if labels != a.labels {
		a.labels, a.since = labels, now
	}
	switch left := min(answersAfter-now.Sub(a.since), answersWithin-now.Sub(a.bounded)); {
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

// takenChanged says that what one Node has of pools is not what it was. What it had counts for a while.
func (s *sources) takenChanged(_ string, old, _ *[]netip.Prefix) {
	s.version.taken++
	if old != nil {
		s.depart(*old)
	}
}

// depart has what Nodes had of pools count for a while: they bear no label any more, or bore it when the process before this one ended.
func (s *sources) depart(had []netip.Prefix) {
	now := time.Now()
	for _, p := range had {
		s.departed[p] = now
	}
}

// forget lets go of what departed, once Nodes were in no doubt for s.grace since then. So long a controller may be away: it labels
// again what lost its label to a restored backup, and a Node that was deleted and made again by its kubelet.
func (s *sources) forget(now time.Time) {
	if !s.sure(now) {
		s.sureSince = time.Time{}
		return
	}
	if s.sureSince.IsZero() {
		s.sureSince = now
	}
	var next time.Duration
	for p, at := range s.departed {
		switch left := s.grace - now.Sub(latest(at, s.sureSince)); {
		case left <= 0:
			delete(s.departed, p)
			s.version.taken++
		case next == 0 || left < next:
			next = left
		}
	}
	if s.forgets != nil {
		s.forgets.Stop()
	}
	if next > 0 {
		s.forgets = time.AfterFunc(next, s.changed)
	}
}

// latest is the later one of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// takenNow is what Nodes have of pools: those that bear the label, and for a while those that bore it. It is asked with the lock held.
func (s *sources) takenNow(now time.Time) []netip.Prefix {
	s.forget(now)
	if s.taken != nil && s.takenAt == s.version.taken {
		return s.taken
	}
	all := slices.AppendSeq([]netip.Prefix{}, maps.Keys(s.departed))
	for _, has := range s.inPools.items {
		all = append(all, has...)
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

// isSure reports whether Nodes are as they should be: this machine's is there, and was not gone of late, those in pools are listed, and
// the pools are the ones that the controller labels by, for this agent can read the inventory.
func (s *sources) isSure(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure(now)
}

// sure is isSure with the lock held.
func (s *sources) sure(now time.Time) bool {
	_, there := s.self.items[s.nodeName]
	return there && s.inPools.synced && s.unread.inventory == nil && (s.returned.IsZero() || now.Sub(s.returned) >= s.grace)
}

// takenOfNode bounds what counts of one Node, pod CIDRs first: its kubelet writes its addresses.
const takenOfNode = 64

// reduceTaken keeps what a Node has that no VIP is given from.
func reduceTaken(obj any) (has []netip.Prefix) {
	all := taken.By(obj)
	for _, t := range all[:min(len(all), takenOfNode)] {
		has = append(has, t.Prefix)
	}
	return has
}
