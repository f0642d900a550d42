package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// The slugs of roles or tags that say what prefixes are for.
const (
	netboxPool = "k8s-lb"   // Services
	netboxPods = "k8s-pods" // pods
)

// netboxSubnet is a prefix that machines may be in.
type netboxSubnet struct {
	object *object
	prefix netip.Prefix
}

// prefixes makes pools of those that are for Services, and subnets of those that machines are in.
func (r *netboxReader) prefixes() {
	var subnets []netboxSubnet
	var pools []*object
	for _, item := range r.kindOf(netboxPrefix) {
		item.fates = map[string]fate{"": meaningless}
		prefix, err := netip.ParsePrefix(item.text("prefix"))
		_, status := r.ref(item, "status")
		switch {
		case err != nil:
			r.markAndNote(item, "prefix", NotValid, "is no prefix: it is left out")
		case r.isFor(item, netboxPool):
			pools = append(pools, item)
		case r.isFor(item, netboxPods):
			r.pods(item, prefix.Masked())
		case status == nil || status.Value != "container":
			subnets = append(subnets, netboxSubnet{item, prefix.Masked()})
		}
	}
	r.subnets(subnets)
	for _, o := range pools {
		r.pool(o)
	}
}

// isFor reports whether a prefix has a role or tag of a slug.
func (r *netboxReader) isFor(object *object, slug string) bool {
	if path, n := r.ref(object, "role"); n != nil && n.Value == slug {
		object.mark(carried, path)
		return true
	}
	for i, tag := range contentOf(object.at("tags")) {
		if n := child(tag, "slug"); n != nil && n.Value == slug {
			object.mark(carried, fmt.Sprintf("tags[%d].slug", i))
			return true
		}
		if tag.Value == slug {
			object.mark(carried, fmt.Sprintf("tags[%d]", i))
			return true
		}
	}
	return false
}

// subnets gives each rack the prefixes that its machines are in, of several the longest.
func (r *netboxReader) subnets(all []netboxSubnet) {
	slices.SortStableFunc(all, func(a, b netboxSubnet) int { return cmp.Compare(b.prefix.Bits(), a.prefix.Bits()) })
	for i := range r.inv.Racks {
		rack := &r.inv.Racks[i]
		for _, m := range rack.Machines {
			for _, a := range m.Addresses {
				at := slices.IndexFunc(all, func(s netboxSubnet) bool { return s.prefix.Contains(a) })
				if at < 0 || slices.Contains(rack.Subnets, all[at].prefix) {
					continue
				}
				if s := all[at]; !slices.ContainsFunc(rack.Subnets, s.prefix.Overlaps) && s.prefix.Bits() < a.BitLen() {
					s.object.mark(carried, "prefix")
					rack.Subnets = append(rack.Subnets, s.prefix)
				}
			}
		}
	}
}

// pods adds a prefix that pods get their addresses from to the pod network.
func (r *netboxReader) pods(object *object, prefix netip.Prefix) {
	sameFamily := func(have netip.Prefix) bool { return have.Addr().Is4() == prefix.Addr().Is4() }
	switch {
	case !r.options.PodNetwork:
		r.markAndNote(object, "prefix", NoCounterpart, "a CNI gives pods their addresses; with --pod-network Plinth does, of this prefix")
	case slices.ContainsFunc(r.inv.PodNetwork.CIDRs, sameFamily):
		r.markAndNote(object, "prefix", Differs, "another prefix of the same family is for pods, too, and an inventory has one: the first is taken")
	default:
		object.mark(carried, "prefix")
		if r.inv.PodNetwork.Mode == "" {
			r.note(object, "", Guessed, "pods of different subnets reach each other by podNetwork.mode, which is taken to be direct: not at all. Write fabric or overlay where there are several subnets")
		}
		r.inv.PodNetwork.Mode = inventory.ModeDirect
		r.inv.PodNetwork.CIDRs = append(r.inv.PodNetwork.CIDRs, prefix)
	}
}

// pool adds a prefix to the pool of its description, or to one that is named as the role.
func (r *netboxReader) pool(object *object) {
	description := object.text("description")
	name, made := r.pools[description]
	if !made {
		same := true
		if name, same = r.newName(poolName, cmp.Or(description, netboxPool)); !same {
			r.note(object, "description", Renamed, fmt.Sprintf("the pool is named %q", name))
		}
		r.pools[description] = name
	}
	one, err := r.takeRange(object.text("prefix"), name)
	if err != nil {
		r.markAndNote(object, "prefix", NotValid, fmt.Sprintf("%v: it is left out", err))
		return
	}
	object.mark(carried, "prefix")
	if description != "" {
		object.mark(carried, "description")
	}
	at := slices.IndexFunc(r.inv.Pools, func(p inventory.Pool) bool { return p.Name == name })
	if at < 0 {
		at = len(r.inv.Pools)
		r.inv.Pools = append(r.inv.Pools, newPool(name))
	}
	pool := &r.inv.Pools[at]
	pool.Ranges = append(pool.Ranges, one)
	r.onLink(object, pool, one)
	r.comment("spec.pools["+name+"]", object)
}

// onLink has a pool answered for on the subnet that it lies in. Addresses that no host there can have are excluded.
func (r *netboxReader) onLink(object *object, pool *inventory.Pool, one inventory.Range) {
	for _, rack := range r.inv.Racks {
		for _, subnet := range rack.Subnets {
			if !inventory.RangeOf(subnet).Overlaps(one) {
				continue
			}
			if pool.Via == "" {
				r.note(object, "prefix", Guessed, fmt.Sprintf("lies in %v, which machines are in: they answer for its addresses there", subnet))
			}
			pool.Via = inventory.ViaLink
			for _, edge := range noHosts(subnet, one) {
				if !slices.ContainsFunc(pool.Exclude, edge.Overlaps) {
					pool.Exclude = append(pool.Exclude, edge)
				}
			}
		}
	}
}

// givenAddresses excludes from pools what NetBox has given to others.
func (r *netboxReader) givenAddresses() {
	excluded := map[string]int{}
	for _, object := range r.kindOf(netboxAddress) {
		object.fates = map[string]fate{"": meaningless}
		addr, err := addressIn(object.text("address"))
		if _, status := r.ref(object, "status"); err != nil || status != nil && status.Value == "deprecated" {
			continue
		}
		for _, pool := range r.exclude(addr) {
			object.mark(carried, "address")
			excluded[pool]++
		}
	}
	if len(excluded) > 0 {
		r.notes = append(r.notes, Note{Severity: Told, Code: Guessed, Path: "spec.pools", Message: "addresses that NetBox has given away are excluded from pools: " + counted(excluded) + ". Take those out of exclude that Services have"})
	}
}
