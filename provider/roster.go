package provider

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// roster knows of every Node which machine it says it is, and which pod CIDRs
// it has: what can be told only by looking at all Nodes at once.
type roster struct {
	mu        sync.Mutex
	inventory *inventory.Inventory
	nodes     map[string]entry
	machines  map[string][]string // names of Nodes by machine
}

type entry struct {
	identity inventory.NodeIdentity
	machine  string // empty: none
	podCIDRs []netip.Prefix
}

func newRoster() *roster {
	return &roster{nodes: map[string]entry{}, machines: map[string][]string{}}
}

// claimants returns the Nodes that say that they are a machine, sorted; node is
// among them even if the roster has not heard of it yet.
func (r *roster) claimants(machine, node string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.machines[machine]
	if len(nodes) == 1 && nodes[0] == node {
		return nodes
	}
	out := slices.Clone(nodes)
	if !slices.Contains(out, node) {
		out = append(out, node)
	}
	slices.Sort(out)
	return out
}

// holder returns another Node whose pod CIDRs overlap one of these.
func (r *roster) holder(cidrs []netip.Prefix, node string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, e := range r.nodes {
		if name == node {
			continue
		}
		for _, p := range e.podCIDRs {
			if slices.ContainsFunc(cidrs, p.Overlaps) {
				return name, true
			}
		}
	}
	return "", false
}

// shared returns the Nodes that have a pod CIDR which overlaps another Node's, each
// with one such.
func (r *roster) shared() map[string]string {
	type block struct {
		cidr netip.Prefix
		node string
	}
	r.mu.Lock()
	var all []block
	for name, e := range r.nodes {
		for _, p := range e.podCIDRs {
			all = append(all, block{p, name})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b block) int {
		return cmp.Or(a.cidr.Addr().Compare(b.cidr.Addr()), cmp.Compare(a.cidr.Bits(), b.cidr.Bits()), cmp.Compare(a.node, b.node))
	})
	with := map[string]string{}
	var widest block // of those so far, the one that may hold the next
	for _, b := range all {
		if !widest.cidr.IsValid() || !widest.cidr.Overlaps(b.cidr) {
			widest = b
			continue
		}
		if b.node == widest.node {
			continue
		}
		with[b.node] = widest.node
		if with[widest.node] == "" {
			with[widest.node] = b.node
		}
	}
	return with
}

// judge takes an inventory: every Node may be another machine now.
func (r *roster) judge(inv *inventory.Inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory = inv
	clear(r.machines)
	for name, e := range r.nodes {
		r.put(name, e)
	}
}

func (r *roster) add(node *v1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.nodes[node.Name]
	e := entry{identity: identity(node), podCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs)}
	if known && old.identity == e.identity && slices.Equal(old.podCIDRs, e.podCIDRs) {
		return
	}
	r.drop(node.Name)
	r.put(node.Name, e)
}

func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(name)
	delete(r.nodes, name)
}

func (r *roster) put(name string, e entry) {
	e.machine = ""
	if m, err := match(r.inventory, e.identity); err == nil {
		e.machine = m.Name
		r.machines[m.Name] = append(r.machines[m.Name], name)
	}
	r.nodes[name] = e
}

func (r *roster) drop(name string) {
	machine := r.nodes[name].machine
	r.machines[machine] = slices.DeleteFunc(r.machines[machine], func(n string) bool { return n == name })
	if len(r.machines[machine]) == 0 {
		delete(r.machines, machine)
	}
}

// handler keeps the roster in line with an informer of Nodes.
func (r *roster) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.add(o.(*v1.Node)) },
		UpdateFunc: func(_, o any) { r.add(o.(*v1.Node)) },
		DeleteFunc: func(o any) {
			if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
				r.remove(name.Name)
			}
		},
	}
}
