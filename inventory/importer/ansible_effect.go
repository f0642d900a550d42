package importer

import (
	"fmt"
	"slices"
	"strings"
)

// ansibleEffects say whether something would be otherwise if a host or group were not in a group.
type ansibleEffects struct {
	*ansibleReader
	own, cluster []string         // of each host, as things are
	below        map[string][]int // hosts by the groups that they are in, directly or not
	byName       map[string]int   // hosts
	first        map[string]int   // the first host that has a variable of the cluster, by what effectOf says of it
}

func (r *ansibleReader) effects() *ansibleEffects {
	effects := &ansibleEffects{ansibleReader: r, below: map[string][]int{}, byName: map[string]int{}, first: map[string]int{}}
	for i, h := range r.hosts {
		own, cluster := r.effectOf(h, edge{})
		effects.own, effects.cluster = append(effects.own, own), append(effects.cluster, cluster)
		effects.byName[h.name] = i
		for group := range r.groupsOf(h, edge{}) {
			effects.below[group] = append(effects.below[group], i)
		}
		for line := range strings.SplitSeq(cluster, "\n") {
			if _, known := effects.first[line]; !known {
				effects.first[line] = i
			}
		}
	}
	return effects
}

// effectOf returns the effect of a host's groups on it: whether it is a Node, its rack and its variables that something was made of;
// and those among them that are of the cluster.
func (r *ansibleReader) effectOf(host *ansibleHost, without edge) (own, cluster string) {
	groups := r.groupsOf(host, without)
	if !inAny(groups, r.nodeGroups) {
		return "", ""
	}
	var mine, all []string
	for name, v := range r.varsOf(host, without) {
		if !v.decided() {
			continue
		}
		text := fmt.Sprintf("%s %p", name, v.object)
		if r.ofCluster[name] {
			all = append(all, text)
		} else if !r.unmade[host.name] {
			mine = append(mine, text)
		}
	}
	slices.Sort(mine)
	slices.Sort(all)
	rack := ""
	if !r.unmade[host.name] {
		rack = r.groupRack(groups)
	}
	return "node " + rack + "\n" + strings.Join(mine, "\n"), strings.Join(all, "\n")
}

// mark marks each group that a host or group is in by whether that matters.
func (e *ansibleEffects) mark(o *object) {
	_, edges := listed(o, "groups")
	for _, at := range edges {
		e.markEdge(at, e.byName[o.name])
	}
	children, edges := listed(o, "children")
	for i, at := range edges {
		e.markEdge(at, e.below[children[i]]...)
	}
}

// markEdge marks a membership of some hosts in a group by whether it matters.
func (e *ansibleEffects) markEdge(at edge, hosts ...int) {
	at.object.mark(meaningless, at.path)
	if e.matters(at, hosts) {
		at.object.mark(carried, at.path)
	}
}

// matters reports whether some hosts, or the cluster, would be otherwise without an edge that is above no other host.
func (e *ansibleEffects) matters(at edge, hosts []int) bool {
	changed, moved := map[int]string{}, false
	for _, i := range hosts {
		own, shared := e.effectOf(e.hosts[i], at)
		if own != e.own[i] {
			return true
		}
		if shared != e.cluster[i] {
			changed[i] = shared
			moved = moved || e.movesFirst(i, shared)
		}
	}
	if !moved {
		return false
	}
	cluster := slices.Clone(e.cluster)
	for i, shared := range changed {
		cluster[i] = shared
	}
	return firsts(cluster) != firsts(e.cluster)
}

// movesFirst reports whether another host may be the first that has a variable of the cluster, if one host has others.
func (e *ansibleEffects) movesFirst(host int, shared string) bool {
	lost := strings.Split(e.cluster[host], "\n")
	if slices.ContainsFunc(lost, func(line string) bool { return e.first[line] == host }) {
		return true
	}
	for line := range strings.SplitSeq(shared, "\n") {
		if first, known := e.first[line]; !known || host < first {
			return true
		}
	}
	return false
}

// firsts are the variables of the cluster in the order in which hosts have them: a second host that has the same adds nothing.
func firsts(all []string) string {
	var lines []string
	seen := map[string]bool{}
	for _, one := range all {
		for line := range strings.SplitSeq(one, "\n") {
			if line != "" && !seen[line] {
				seen[line] = true
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n")
}
