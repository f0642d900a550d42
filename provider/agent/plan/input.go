package plan

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/sorted"
)

// CompareNames orders Nodes by name.
func CompareNames(a, b *routing.Node) int { return strings.Compare(a.Name, b.Name) }

// ContainsAll reports whether one list has all of another.
func ContainsAll[T comparable](list, others []T) bool {
	return !slices.ContainsFunc(others, func(x T) bool { return !slices.Contains(list, x) })
}

// SubnetsOf are the subnets of links, in their order.
func SubnetsOf(links []inventory.Link) (all []netip.Prefix) {
	for _, l := range links {
		all = append(all, l.Subnet)
	}
	return all
}

// Inputs are all that a plan is made of, and all that is kept on disk.
type Inputs struct {
	Inventory *inventory.Inventory
	Self      Node
	Nodes     []*routing.Node // by name
	Offers    sorted.List[advertise.Offer]
	Passed    sorted.List[advertise.Offer] // the same, as the gate has them planned with
	Passwords map[inventory.SecretKey]bgp.Password
	Answered  []netip.Prefix // addresses of pools that are answered for where nobody serves them; nil: those of all pools
	Taken     []netip.Prefix // what Nodes of the cluster have of pools

	Version Version
	Trial   *source.Trial // whose inventory this is; nil: it is the accepted one
}

// Version tells inputs apart: the same version, the same plan.
type Version struct {
	Inventory                    *inventory.Inventory
	Self, Nodes, Secrets, Offers uint64 // changes so far
	Passed                       uint64
	Rotation                     uint64 // changes so far of what sessions are planned with
	Answered, Taken              uint64
}

// ForRoutes is the part of a version that routes depend on: most events are about Services.
func (v Version) ForRoutes() Version {
	v.Offers, v.Passed, v.Rotation = 0, 0, 0
	return v
}

// Machine is which machine of the inventory this Node is.
func (in Inputs) Machine() (inventory.Machine, error) {
	return in.Inventory.MachineOf(in.Self.Identity)
}

// Serving are these inputs with what is to be reached now, as others have it. Services are followed by labels and links of the
// latest inventory: where that knows fewer than this one, what the others have says nothing about this one's pools.
func (in Inputs) Serving(now Inputs) Inputs {
	in.Taken, in.Version.Taken = now.Taken, now.Version.Taken // pods run on, whichever machine this is
	sameLabels := ContainsAll(now.Inventory.AdvertiseLabels(), in.Inventory.AdvertiseLabels())
	sameLinks := ContainsAll(SubnetsOf(now.Inventory.Links()), SubnetsOf(in.Inventory.Links()))
	if sameLabels && sameLinks {
		in.Offers, in.Version.Offers = now.Offers, now.Version.Offers
		in.Self.Excluded, in.Version.Self = now.Self.Excluded, now.Version.Self
	}
	return in
}

// IsUnlisted reports whether nothing in the inventory is of this Node, by the error of
// [Inputs.Machine]. A namesake with other IDs is, and so is one on a link: the others know it by its name,
// and count it. It may have come to another rack, which the Node does not say yet.
func (in Inputs) IsUnlisted(err error) bool {
	name := in.Self.Identity.Name
	_, namesake := in.Inventory.Machine(name)
	return errors.Is(err, inventory.ErrNoMachine) && !namesake && len(in.Inventory.LinksOf(name)) == 0
}

// Begin returns the error for which an agent that begins is not to serve this Node: it was left behind by
// a machine in whose place the inventory has another. One that runs goes on, for an edit of an ID
// alone is no reason to take traffic from a machine.
func (in Inputs) Begin() error {
	_, err := in.Inventory.Identify(in.Self.Identity)
	return err
}

// PoolAddresses are the addresses that a VIP can have. What a pool
// excludes may be a machine's: it is reached as ever.
func PoolAddresses(inv *inventory.Inventory) *netipx.IPSet {
	var ranges, excluded []inventory.Range
	for _, pool := range inv.Pools {
		ranges, excluded = append(ranges, pool.Ranges...), append(excluded, pool.Exclude...)
	}
	return inventory.SetOf(ranges, excluded)
}

// PrefixesIn returns the prefixes of a set.
func PrefixesIn(set *netipx.IPSet) []netip.Prefix {
	if set.Prefixes() == nil {
		return []netip.Prefix{} // not nil: nothing is allowed then, and not everything
	}
	return set.Prefixes()
}
