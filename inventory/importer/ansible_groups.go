package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// ansibleVar is a variable where it is written.
type ansibleVar struct {
	object *object
	name   string
	node   *yaml.Node
}

func (v ansibleVar) path() string { return join("vars", v.name) }

// ansibleHost is a host, with what the files say of it.
type ansibleHost struct {
	name    string
	objects []*object // of inventories, then of host_vars
	groups  []membership
}

// membership records that a host or group is in a group.
type membership struct {
	group string
	edge  // where it is said; zero: kubespray has it so, whatever an inventory says
}

// ansibleTree is the tree of groups and hosts.
type ansibleTree struct {
	hosts  []*ansibleHost
	groups map[string][]*object    // what is said of a group: by inventories, then by group_vars
	around map[string][]membership // of a group, by the names of the groups that it is in
}

// edge is a place where a host or group is said to be in a group.
type edge struct {
	object *object
	path   string
}

// treeOf joins what was read of hosts and groups.
func treeOf(draft *draft) *ansibleTree {
	tree := &ansibleTree{groups: map[string][]*object{}}
	by := map[string]*ansibleHost{}
	for _, kind := range []string{ansibleHostKind, ansibleHostVars, ansibleGroupKind, ansibleGroupVars} {
		for _, top := range draft.objects {
			if top.group() != ansible || top.kind != kind {
				continue
			}
			top.read = true
			switch {
			case kind == ansibleGroupKind || kind == ansibleGroupVars:
				tree.groups[top.name] = append(tree.groups[top.name], top)
			case by[top.name] != nil:
				by[top.name].objects = append(by[top.name].objects, top)
			case kind == ansibleHostVars:
				draft.leaveOut(top, "", NotRead, "no inventory that was read has this host: nothing of it is carried over")
			default:
				by[top.name] = &ansibleHost{name: top.name, objects: []*object{top}}
				tree.hosts = append(tree.hosts, by[top.name])
			}
		}
	}
	tree.index()
	return tree
}

// index works out once which groups each host and group is in.
func (t *ansibleTree) index() {
	for _, h := range t.hosts {
		for _, o := range h.objects {
			names, edges := listed(o, "groups")
			for i, name := range names {
				h.groups = append(h.groups, membership{name, edges[i]})
			}
		}
	}
	t.around = map[string][]membership{}
	for child, parent := range implied {
		t.around[child] = append(t.around[child], membership{group: parent})
	}
	for parent, objects := range t.groups {
		for _, o := range objects {
			children, edges := listed(o, "children")
			for i, child := range children {
				t.around[child] = append(t.around[child], membership{parent, edges[i]})
			}
		}
	}
	for _, all := range t.around {
		slices.SortFunc(all, func(a, b membership) int { return strings.Compare(a.group, b.group) })
	}
}

// listed are the scalars of a list, with their places in the object.
func listed(o *object, key string) (names []string, edges []edge) {
	for i, item := range contentOf(o.at(key)) {
		names, edges = append(names, item.Value), append(edges, edge{o, fmt.Sprintf("%s[%d]", key, i)})
	}
	return names, edges
}

// implied are the groups that kubespray puts others into by itself, whatever an inventory says.
var implied = map[string]string{
	"kube_control_plane": "k8s_cluster", "kube_node": "k8s_cluster", "calico_rr": "k8s_cluster",
	"kube-master": "kube_control_plane", "kube-node": "kube_node", "calico-rr": "calico_rr", "k8s-cluster": "k8s_cluster",
}

// groupsOf are the groups that a host is in, with how deep they lie: parents come before their children.
func (t *ansibleTree) groupsOf(host *ansibleHost, without edge) map[string]int {
	depth := map[string]int{}
	var visit func(name string) int
	visit = func(name string) int {
		if d, ok := depth[name]; ok {
			return d
		}
		depth[name] = 1 // also of a group that is a child of itself
		deepest := 0
		for _, in := range t.around[name] {
			if in.object == nil || in.edge != without {
				deepest = max(deepest, visit(in.group))
			}
		}
		depth[name] = deepest + 1
		return depth[name]
	}
	for _, in := range host.groups {
		if in.edge != without {
			visit(in.group)
		}
	}
	delete(depth, "all")
	return depth
}

// varsOf are the variables of a host. Ansible reads inventories first, then the files beside them, and in each case groups from the
// outermost to the innermost, those of one depth by name; what a host has itself counts in the end.
func (t *ansibleTree) varsOf(host *ansibleHost, without edge) map[string]ansibleVar {
	depth := t.groupsOf(host, without)
	groups := slices.SortedFunc(maps.Keys(depth), func(a, b string) int { return cmp.Or(cmp.Compare(depth[a], depth[b]), strings.Compare(a, b)) })
	groups = append([]string{"all"}, groups...)
	vars := map[string]ansibleVar{}
	for _, kind := range []string{ansibleGroupKind, ansibleGroupVars} {
		for _, g := range groups {
			for _, o := range t.groups[g] {
				if o.kind == kind {
					addVars(vars, o)
				}
			}
		}
	}
	for _, o := range host.objects {
		addVars(vars, o)
	}
	return vars
}

func addVars(vars map[string]ansibleVar, object *object) {
	for key, value := range pairs(object.at("vars")) {
		vars[key.Value] = ansibleVar{object, key.Value, value}
	}
}

// nodeGroups are the groups whose hosts are Nodes, by who names them so: kubespray, today and before, then playbooks for k3s.
var nodeGroups = [][]string{
	{"kube_control_plane", "kube_node", "k8s_cluster", "kube-master", "kube-node", "k8s-cluster"},
	{"server", "agent", "k3s_cluster", "master", "node"},
}

// chosenGroups returns the first of [nodeGroups] that have hosts; nil: none has, and all hosts are Nodes.
func (t *ansibleTree) chosenGroups() []string {
	for _, names := range nodeGroups {
		for _, h := range t.hosts {
			if inAny(t.groupsOf(h, edge{}), names) {
				return names
			}
		}
	}
	return nil
}

func inAny(groups map[string]int, names []string) bool {
	return names == nil || slices.ContainsFunc(names, func(n string) bool { _, ok := groups[n]; return ok })
}
