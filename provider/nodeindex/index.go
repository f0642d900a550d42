package nodeindex

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// Index has of every Node which machine it claims to be, and which pod CIDRs it has.
type Index struct {
	mu        sync.Mutex
	inventory *inventory.Inventory // in force; nil: none yet
	nodes     map[string]entry
	machines  map[string][]string // names of the Nodes that claim it, by machine
}

type entry struct {
	identity inventory.NodeIdentity
	machine  string // empty: none
	podCIDRs []netip.Prefix
}

// New returns an Index without Nodes and without an inventory.
func New() *Index {
	return &Index{nodes: map[string]entry{}, machines: map[string][]string{}}
}

// MachineOf returns the machine that a Node is, and the inventory that says so.
// An error that is [inventory.ErrNoMachine] means that the Node is none of ours;
// any other that it cannot be told, and must be left alone.
func (x *Index) MachineOf(node *v1.Node) (*inventory.Inventory, inventory.Machine, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, err := Match(x.inventory, Identity(node))
	if err != nil {
		return x.inventory, m, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if nodes := x.nodesClaiming(m, Identity(node)); len(nodes) > 1 || nodes[0] != node.Name {
		return x.inventory, inventory.Machine{}, &claimedError{machine: m.Name, node: node.Name, nodes: slices.Sorted(slices.Values(nodes))}
	}
	return x.inventory, m, nil
}

// nodesClaiming returns the Nodes that claim a machine, with one that may not have been
// observed yet. A kubelet writes the system UUID of its Node itself: beside a Node that has
// the machine's provider ID or name, one that has only its system UUID does not count.
func (x *Index) nodesClaiming(m inventory.Machine, node inventory.NodeIdentity) []string {
	nodes := x.machines[m.Name]
	if !slices.Contains(nodes, node.Name) {
		nodes = append(slices.Clip(nodes), node.Name)
	}
	if len(nodes) == 1 {
		return nodes
	}
	certain := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		id := x.nodes[name].identity
		if name == node.Name {
			id = node
		}
		return id.Name != m.Name && id.ProviderID != m.ProviderID() && !slices.Contains(m.Aliases, id.ProviderID)
	})
	if len(certain) == 0 {
		return nodes
	}
	return certain
}

// PodCIDRHolder returns another Node whose pod CIDRs overlap one of these.
func (x *Index) PodCIDRHolder(cidrs []netip.Prefix, node string) (string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, e := range x.nodes {
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

// PodCIDROverlaps returns the Nodes that have a pod CIDR which overlaps another Node's, each
// with one such.
func (x *Index) PodCIDROverlaps() map[string]string {
	type block struct {
		cidr netip.Prefix
		node string
	}
	x.mu.Lock()
	var all []block
	for name, e := range x.nodes {
		for _, p := range e.podCIDRs {
			all = append(all, block{p, name})
		}
	}
	x.mu.Unlock()
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

// Reindex takes the inventory that came into force: every Node may be another machine now.
func (x *Index) Reindex(inv *inventory.Inventory) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inventory = inv
	clear(x.machines)
	for name, e := range x.nodes {
		x.insert(name, e)
	}
}

func (x *Index) observe(node *v1.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, known := x.nodes[node.Name]
	e := entry{identity: Identity(node), podCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs)}
	if known && old.identity == e.identity && slices.Equal(old.podCIDRs, e.podCIDRs) {
		return
	}
	x.unclaim(node.Name)
	x.insert(node.Name, e)
}

func (x *Index) observeDeleted(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unclaim(name)
	delete(x.nodes, name)
}

func (x *Index) insert(name string, e entry) {
	e.machine = ""
	if m, err := Match(x.inventory, e.identity); err == nil {
		e.machine = m.Name
		x.machines[m.Name] = append(x.machines[m.Name], name)
	}
	x.nodes[name] = e
}

func (x *Index) unclaim(name string) {
	machine := x.nodes[name].machine
	x.machines[machine] = slices.DeleteFunc(x.machines[machine], func(n string) bool { return n == name })
	if len(x.machines[machine]) == 0 {
		delete(x.machines, machine)
	}
}

// Handler observes the Nodes of an informer.
func (x *Index) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { x.observe(o.(*v1.Node)) },
		UpdateFunc: func(_, o any) { x.observe(o.(*v1.Node)) },
		DeleteFunc: func(o any) {
			if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
				x.observeDeleted(name.Name)
			}
		},
	}
}

// Unmatched returns the Nodes that are no machine and the machines that have no
// Node and should, both sorted; ok is false while there is no inventory.
func (x *Index) Unmatched() (nodes, machines []string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inventory == nil {
		return nil, nil, false
	}
	for name, e := range x.nodes {
		if e.machine == "" {
			nodes = append(nodes, name)
		}
	}
	for _, rack := range x.inventory.Racks {
		for _, m := range rack.Machines {
			awaited := m.State == inventory.StateActive || m.State == inventory.StateMaintenance
			if awaited && !m.Held && len(x.machines[m.Name]) == 0 {
				machines = append(machines, m.Name)
			}
		}
	}
	slices.Sort(nodes)
	slices.Sort(machines)
	return nodes, machines, true
}
