package nodeindex

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// Index answers from the Nodes of the informer and the inventory in force.
//
// It keeps nothing of a Node itself: the informer's store is up to date before any handler of
// any controller is told of a change, so whoever is told may ask at once.
type Index struct {
	inventory atomic.Pointer[inventory.Inventory] // in force; nil: none yet
	nodes     cache.Indexer
	synced    cache.InformerSynced // whether nodes has all of them
}

// The indices that Use adds to the informer.
const (
	byProviderID = "plinth.dev/provider-id"
	bySystemUUID = "plinth.dev/system-uuid" // in the form of an inventory.UUID
)

// New returns an Index without an inventory. Use comes before any question.
func New() *Index { return &Index{} }

// Use sets the informer of all Nodes, before it is started.
func (x *Index) Use(nodes cache.SharedIndexInformer) error {
	x.nodes, x.synced = nodes.GetIndexer(), nodes.HasSynced
	return nodes.AddIndexers(cache.Indexers{
		byProviderID: indexedBy(func(n *v1.Node) string { return n.Spec.ProviderID }),
		bySystemUUID: indexedBy(func(n *v1.Node) string { return inventory.ReportedUUID(n.Status.NodeInfo.SystemUUID).String() }),
	})
}

func indexedBy(value func(*v1.Node) string) cache.IndexFunc {
	return func(o any) ([]string, error) { return []string{value(o.(*v1.Node))}, nil }
}

// Reindex indexes the Nodes by the inventory that came into force: every Node may be another machine now.
func (x *Index) Reindex(inv *inventory.Inventory) { x.inventory.Store(inv) }

// all returns every Node.
func (x *Index) all() iter.Seq[*v1.Node] {
	return func(yield func(*v1.Node) bool) {
		for _, o := range x.nodes.List() {
			if !yield(o.(*v1.Node)) {
				return
			}
		}
	}
}

// MachineOf returns the machine that a Node is, and the inventory that says so.
// An error that is [inventory.ErrNoMachine] means that the Node is none of ours;
// any other that it cannot be told, and must be left alone.
func (x *Index) MachineOf(node *v1.Node) (*inventory.Inventory, inventory.Machine, error) {
	inv := x.inventory.Load()
	machine, err := Match(inv, x.identity(node))
	if err != nil {
		return inv, machine, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if nodes := namesOf(x.nodesClaiming(inv, machine, node)); len(nodes) > 1 || nodes[0] != node.Name {
		return inv, inventory.Machine{}, &claimedError{machine: machine.Name, node: node.Name, nodes: nodes}
	}
	return inv, machine, nil
}

// identity returns the identity that a Node reports of its machine, and whether other Nodes report its system UUID.
func (x *Index) identity(node *v1.Node) inventory.NodeIdentity {
	id := Identity(node)
	id.UUIDShared = slices.ContainsFunc(x.reporting(id.SystemUUID), func(n *v1.Node) bool { return n.Name != node.Name && !isSilent(n) })
	return id
}

// State returns the state of a Node, with its identity beside those of all others.
func (x *Index) State(node *v1.Node) inventory.NodeState {
	s := State(node)
	s.NodeIdentity = x.identity(node)
	return s
}

// ReportingTheSame returns the names of the other Nodes that report the system UUID of a Node, sorted.
func (x *Index) ReportingTheSame(node *v1.Node) (names []string) {
	for _, n := range x.reporting(Identity(node).SystemUUID) {
		if n.Name != node.Name {
			names = append(names, n.Name)
		}
	}
	return names
}

// reporting are the Nodes that report a system UUID, by name.
func (x *Index) reporting(uuid inventory.UUID) []*v1.Node {
	if uuid.IsZero() {
		return nil
	}
	found, _ := x.nodes.ByIndex(bySystemUUID, uuid.String()) // an index that there is returns no error
	return nodesIn(found)
}

// nodesClaiming returns the Nodes that claim a machine, by name, with some that the informer may not have seen yet. A kubelet
// writes the system UUID of its Node itself: beside a Node that has the machine's provider ID or name, one that has only its
// system UUID does not count.
func (x *Index) nodesClaiming(inv *inventory.Inventory, machine inventory.Machine, more ...*v1.Node) []*v1.Node {
	claims := map[string]*v1.Node{}
	for _, n := range append(x.candidates(machine), more...) {
		if claimed, err := Match(inv, x.identity(n)); err == nil && claimed.Name == machine.Name {
			claims[n.Name] = n
		}
	}
	nodes := slices.SortedFunc(maps.Values(claims), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	certain := slices.DeleteFunc(slices.Clone(nodes), func(n *v1.Node) bool {
		return n.Name != machine.Name && n.Spec.ProviderID != machine.ProviderID() && !slices.Contains(machine.Aliases, n.Spec.ProviderID)
	})
	if len(certain) == 0 {
		return nodes
	}
	return certain
}

// candidates returns the Nodes that say anything by which they could be a machine.
func (x *Index) candidates(machine inventory.Machine) (nodes []*v1.Node) {
	add := func(found []any, _ error) { // an index that there is returns no error
		for _, o := range found {
			nodes = append(nodes, o.(*v1.Node))
		}
	}
	for _, id := range append([]string{machine.ProviderID()}, machine.Aliases...) {
		add(x.nodes.ByIndex(byProviderID, id))
	}
	if !machine.SystemUUID.IsZero() {
		add(x.nodes.ByIndex(bySystemUUID, machine.SystemUUID.String()))
	}
	if o, ok, _ := x.nodes.GetByKey(machine.Name); ok {
		nodes = append(nodes, o.(*v1.Node))
	}
	return nodes
}

// PodCIDRHolder returns another Node whose pod CIDRs overlap one of these.
func (x *Index) PodCIDRHolder(cidrs []netip.Prefix, node string) (string, bool) {
	if len(cidrs) == 0 {
		return "", false
	}
	for n := range x.all() {
		for _, p := range routing.ParsePodCIDRs(n.Spec.PodCIDRs) {
			if n.Name != node && slices.ContainsFunc(cidrs, p.Overlaps) {
				return n.Name, true
			}
		}
	}
	return "", false
}

// PodCIDROverlaps returns the Nodes that have a pod CIDR which overlaps another Node's, each
// with one such.
func (x *Index) PodCIDROverlaps() map[string]string {
	cidrs := map[string][]netip.Prefix{}
	for n := range x.all() {
		cidrs[n.Name] = routing.ParsePodCIDRs(n.Spec.PodCIDRs)
	}
	return routing.Overlaps(cidrs)
}

// Unmatched returns the Nodes that are no machine and the machines that have no
// Node and should, both sorted; ok is false while there is no inventory.
func (x *Index) Unmatched() (nodes, machines []string, ok bool) {
	inv := x.inventory.Load()
	if inv == nil {
		return nil, nil, false
	}
	claimed := map[string]bool{}
	for n := range x.all() {
		if m, err := Match(inv, x.identity(n)); err != nil {
			nodes = append(nodes, n.Name)
		} else {
			claimed[m.Name] = true
		}
	}
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			awaited := m.State == inventory.StateActive || m.State == inventory.StateMaintenance
			if awaited && !m.Held && !claimed[m.Name] {
				machines = append(machines, m.Name)
			}
		}
	}
	slices.Sort(nodes)
	slices.Sort(machines)
	return nodes, machines, true
}
