package importer

import (
	"fmt"
	"slices"
	"strings"
)

// ansibleEffects say whether something would be otherwise if a host or group were not in a group.
type ansibleEffects struct {
	*ansibleReader
	own, cluster []string // of each host, as things are
}

func (r *ansibleReader) effects() *ansibleEffects {
	e := &ansibleEffects{ansibleReader: r}
	for _, h := range r.hosts {
		own, cluster := r.effectOf(h, edge{})
		e.own, e.cluster = append(e.own, own), append(e.cluster, cluster)
	}
	return e
}

// effectOf is what its groups decide of a host: whether it is a Node, its rack and its variables that something is said of; and those
// among them that are of the cluster.
func (r *ansibleReader) effectOf(h *ansibleHost, without edge) (own, cluster string) {
	groups := r.groupsOf(h, without)
	if !inAny(groups, r.nodeGroups) {
		return "", ""
	}
	var mine, all []string
	for name, v := range r.varsOf(h, without) {
		text := fmt.Sprintf("%s %p", name, v.object)
		if !v.spoken() {
			continue
		}
		if r.ofCluster[name] {
			all = append(all, text)
		} else {
			mine = append(mine, text)
		}
	}
	slices.Sort(mine)
	slices.Sort(all)
	return "node " + r.groupRack(groups) + "\n" + strings.Join(mine, "\n"), strings.Join(all, "\n")
}

// say says of each group that a host or group is in whether that matters.
func (e *ansibleEffects) say(o *object) {
	_, edges := listed(o, "groups")
	_, children := listed(o, "children")
	for _, at := range append(edges, children...) {
		o.mark(meaningless, at.path)
		if e.matters(at) {
			o.mark(carried, at.path)
		}
	}
}

func (e *ansibleEffects) matters(at edge) bool {
	changed := map[int]string{}
	for i, h := range e.hosts {
		if at.object.kind == ansibleHostKind && at.object.name != h.name {
			continue
		}
		own, shared := e.effectOf(h, at)
		if own != e.own[i] {
			return true
		}
		if shared != e.cluster[i] {
			changed[i] = shared
		}
	}
	if len(changed) == 0 {
		return false
	}
	cluster := slices.Clone(e.cluster)
	for i, shared := range changed {
		cluster[i] = shared
	}
	return firsts(cluster) != firsts(e.cluster)
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
