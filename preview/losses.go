package preview

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
)

// Losses returns the losses that an edit causes in a cluster: VIPs in use that are [Unreachable], and those that it switches
// between BGP and a link without asking; Nodes that lose their machine; pods that do not reach each other any
// more; addresses of the cluster that a pool gets. What was lost before does not count: an edit that mends is
// never refused.
func Losses(before, after *inventory.Inventory, cluster Cluster) edit.Losses {
	losses := edit.Losses{InUse: cluster.VIPsInUse(), Unreachable: Unreachable(before, after, cluster), Nodes: lostNodes(before, after, cluster), Taken: takenBy(before, after, cluster)}
	was := of(before, cluster.served(), Failures{}, before.MachineOf, cluster.withoutNode(before))
	for _, vip := range was.VIPs {
		if from, to, switches := edit.SwitchOf(vip.Addr, after, before); switches && len(vip.By) > 0 {
			losses.Switched = append(losses.Switched, edit.SwitchedVIP{Addr: vip.Addr, Services: keysOf(vip.Services), From: from, To: to})
		}
	}
	is := of(after, cluster, Failures{}, after.Identify, nil)
	losses.Pods = cutPods(*was, *is, cluster, inventory.StateActive)
	if rests := func(m machine) bool { return m.inv.State == inventory.StateMaintenance }; len(losses.Pods) == 0 && slices.ContainsFunc(is.machines, rests) {
		losses.Resting = cutPods(*was, *is, cluster, inventory.StateActive, inventory.StateMaintenance)
	}
	return losses
}

// lostNodes are the Nodes that are a machine and would be none, or any of several. A machine that goes, or that another
// one takes the place of, is told of as removed.
func lostNodes(before, after *inventory.Inventory, c Cluster) (lost []edit.LostNode) {
	removed := edit.LossesOf(after, before).Removed
	for name, node := range c.Nodes {
		node.Identity.Name = name
		old, err := before.MachineOf(node.Identity)
		if err != nil || slices.Contains(removed, old.Name) {
			continue
		}
		if _, err = after.MachineOf(node.Identity); err != nil {
			lost = append(lost, edit.LostNode{Node: name, Machine: old.Name, Why: err.Error()})
		}
	}
	slices.SortFunc(lost, func(a, b edit.LostNode) int { return cmp.Compare(a.Node, b.Node) })
	return lost
}

// notRouted is the reason why pods of other Nodes are not reached where the inventory has no podNetwork any more.
const notRouted = "podNetwork is gone, and with it the routes that Plinth keeps"

// cutPods are the pairs of racks between whose pods more pairs of machines lack a way than before, among the Nodes that
// have pod CIDRs, and pods under both inventories, whose machines are in one of these states under the next one. Machines may
// change their rack: in all more pairs must lack one.
func cutPods(was, is Preview, c Cluster, states ...inventory.State) (cut []edit.CutPods) {
	had, has := was.podNodes(), is.podNodes(states...)
	for _, p := range []*Preview{&was, &is} {
		p.paths = nil
		p.machines = slices.DeleteFunc(slices.Clone(p.machines), func(m machine) bool {
			return !had[m.node] || !has[m.node] || len(c.Nodes[m.node].PodCIDRs) == 0
		})
	}
	before, lacked := map[[2]string]int{}, 0
	for _, p := range was.PodPaths() {
		n := unreachablePairs(p.Ways)
		before[[2]string{p.From, p.To}] = n
		lacked += n
		if reached := pairsOf(p.Ways) - n; reached > 0 && is.inv.PodNetwork.Mode == inventory.ModeNone {
			cut = append(cut, edit.CutPods{From: p.From, To: p.To, Pairs: reached, Why: notRouted})
		}
	}
	for _, p := range is.PodPaths() {
		n := unreachablePairs(p.Ways)
		lacked -= n
		if more := n - before[[2]string{p.From, p.To}]; more > 0 {
			cut = append(cut, edit.CutPods{From: p.From, To: p.To, Pairs: more, Why: whyNot(p.Ways)})
		}
	}
	if lacked >= 0 && is.inv.PodNetwork.Mode != inventory.ModeNone {
		return nil
	}
	return cut
}

// podNodes are the Nodes of machines that have pods, in one of these states; of none: in any.
func (p *Preview) podNodes(states ...inventory.State) map[string]bool {
	out := map[string]bool{}
	for _, m := range p.machines {
		if m.hasPods() && (len(states) == 0 || slices.Contains(states, m.inv.State)) {
			out[m.node] = true
		}
	}
	return out
}

func pairsOf(ways []Way) (n int) {
	for _, w := range ways {
		n += w.Pairs
	}
	return n
}

// whyNot returns the reason why there are no ways.
func whyNot(ways []Way) string {
	var all []string
	for _, w := range ways {
		if w.Kind == NoWay {
			all = append(all, fmt.Sprintf("%s: %s", w.Family, w.Reason))
		}
	}
	return strings.Join(slices.Compact(all), ", ")
}

// takenBy are the addresses of the cluster that a pool has under the next inventory, and none had, but for those that nobody
// loses by that. What is in a block that is told of is not told again.
func takenBy(before, after *inventory.Inventory, cluster Cluster) (taken []inventory.TakenAddress) {
	if len(cluster.Taken) == 0 {
		return nil
	}
	pools := edit.Diff(before, after).Pools
	for _, change := range pools {
		for _, used := range cluster.Taken {
			if used.Proxied {
				continue
			}
			had := slices.ContainsFunc(pools, func(o edit.PoolChange) bool { return overlap(o.Lost, used.Prefix) })
			told := slices.ContainsFunc(taken, func(o inventory.TakenAddress) bool {
				return o.Pool == change.Name && inventory.Covers(o.Of, used.Prefix)
			})
			if !had && !told && overlap(change.Gained, used.Prefix) {
				taken = append(taken, inventory.TakenAddress{Pool: change.Name, Of: used.Prefix, Who: used.Who})
			}
		}
	}
	return taken
}

// TakenIn returns the addresses of the cluster that pools have, so that no VIP is given from there, by pool: an edit that gives
// them some may be refused, and Nodes may join later. What is in a block that is told of is not told again, and a Service may
// have its VIP among its externalIPs.
func TakenIn(inv *inventory.Inventory, c Cluster) (taken []inventory.TakenAddress) {
	ranges, told, held := inv.PoolRanges(), map[string][]netip.Prefix{}, c.holders()
	for _, used := range c.Taken {
		for _, pool := range ranges.Having(used.Prefix) {
			if held[used.Prefix.Addr()][used.Service] || slices.ContainsFunc(told[pool], func(p netip.Prefix) bool { return inventory.Covers(p, used.Prefix) }) {
				continue
			}
			told[pool] = append(told[pool], used.Prefix)
			taken = append(taken, inventory.TakenAddress{Pool: pool, Of: used.Prefix, Who: used.Who})
		}
	}
	slices.SortStableFunc(taken, func(a, b inventory.TakenAddress) int { return cmp.Compare(a.Pool, b.Pool) })
	return taken
}

// holders are the Services that hold each VIP.
func (c Cluster) holders() map[netip.Addr]map[lb.ServiceKey]bool {
	all := map[netip.Addr]map[lb.ServiceKey]bool{}
	for _, s := range c.Services {
		for _, a := range s.VIPs {
			if all[a] == nil {
				all[a] = map[lb.ServiceKey]bool{}
			}
			all[a][s.Key] = true
		}
	}
	return all
}

func overlap(ranges []inventory.Range, block netip.Prefix) bool {
	return slices.ContainsFunc(ranges, inventory.RangeOf(block).Overlaps)
}
