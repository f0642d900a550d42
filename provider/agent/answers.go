package agent

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/plan"
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

// observe updates the addresses by an inventory and the labels, and returns after how long it should be called again; 0: not before something changes.
func (a *answers) observe(inv *inventory.Inventory, labels uint64, synced bool, now time.Time) (again time.Duration) {
	if inv != a.read {
		a.read = inv
		if all := plan.PoolAddresses(inv); a.all == nil || !all.Equal(a.all) {
			a.all, a.since, a.bounded = all, now, now
		}
	}
	if !synced {
		a.bounded = now
	}
	if labels != a.labels {
		a.labels, a.since = labels, now
	}
	switch left := min(answersAfter-now.Sub(a.since), answersWithin-now.Sub(a.bounded)); {
	case a.pools == nil, synced && left <= 0:
		a.set(a.all)
	case a.pools.Equal(a.all):
	default:
		a.set(inventory.Common(a.pools, a.all))
		if synced && !a.pools.Equal(a.all) {
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
	a.pools = inventory.SetOf(inventory.PrefixRanges(pools), nil)
}

// answer decides which pools the machine answers for. What is in force while something is missing gains none.
func (a *Agent) answer(missing string, now time.Time) {
	synced := missing == "" && a.sources.IsSynced(now)
	a.schedule.wakeIn(a.answers.observe(a.inputs.Inventory, a.inputs.Version.Taken, synced, now))
	if a.inputs.Answered == nil || a.inputs.Version.Answered != a.answers.version {
		a.inputs.Answered, a.inputs.Version.Answered = plan.PrefixesIn(a.answers.pools), a.answers.version
	}
}

// tellCoarse logs which pools have so many Nodes or pods that more than these are not answered for, and were not.
func tellCoarse(log *slog.Logger, before, now []netip.Prefix) {
	for _, p := range now {
		if !slices.Contains(before, p) {
			log.Warn("excluded from answers the addresses around those of Nodes, too: the pool has very many of them", "pool", p)
		}
	}
}
