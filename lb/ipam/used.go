package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// use is a block of addresses that has an owner already, so that no VIP is given from it.
type use struct {
	netip.Prefix
	who string
}

// never lists addresses that cannot be VIPs, whatever an inventory says.
var never = usesBy("", blocks("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", // RFC 6890
	"224.0.0.0/4",        // RFC 5771, multicast
	"255.255.255.255/32", // RFC 919, limited broadcast
	"::/127",             // RFC 4291: unspecified and loopback
	"::ffff:0:0/96",      // RFC 4291, section 2.5.5.2: IPv4-mapped
	"fe80::/10",          // RFC 4291, section 2.5.6: link-local
	"ff00::/8",           // RFC 4291, section 2.7: multicast
))

func blocks(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func usesBy(who string, all []netip.Prefix) (out []use) {
	for _, p := range all {
		out = append(out, use{p.Masked(), who})
	}
	return out
}

// usesOf lists the addresses that no pool gives: those that cannot be VIPs, those that the inventory itself uses, and those
// that the cluster has, but for externalIPs, which their Services may have. None of the blocks has an
// address of another; sorted.
func usesOf(inv *inventory.Inventory, taken []lb.Taken) []use {
	all := append(slices.Clone(never), inventoryUses(inv)...)
	for _, t := range taken {
		if t.Service == (lb.ServiceKey{}) {
			all = append(all, use{t.Prefix.Masked(), t.Who})
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()), cmp.Compare(a.who, b.who))
	})
	kept := all[:0]
	for _, u := range all { // of two blocks one contains the other, or they are apart
		if n := len(kept); n == 0 || !kept[n-1].Overlaps(u.Prefix) {
			kept = append(kept, u)
		}
	}
	return kept
}

// inventoryUses lists machines, routers and pods.
func inventoryUses(inv *inventory.Inventory) (all []use) {
	add := func(who string, addrs []netip.Addr, blocks []netip.Prefix) {
		for _, a := range addrs {
			blocks = append(blocks[:len(blocks):len(blocks)], netip.PrefixFrom(a, a.BitLen()))
		}
		all = append(all, usesBy(who, blocks)...)
	}
	add("the pod network", nil, inv.PodNetwork.CIDRs)
	for _, r := range inv.Routers {
		add("router "+r.Name, r.Addresses, nil)
	}
	for _, rack := range inv.Racks {
		add("the pods of rack "+rack.Name, nil, rack.PodCIDRs)
		for _, m := range rack.Machines {
			add("machine "+m.Name, slices.Concat(m.Addresses, m.ExternalAddresses), nil)
			add("the pods of machine "+m.Name, nil, m.PodCIDRs)
		}
	}
	return all
}

// unused cuts used addresses out of runs.
func unused(runs []run, used []use) (rest []run) {
	for _, free := range runs {
		from := sort.Search(len(used), func(i int) bool { return inventory.RangeOf(used[i].Prefix).Last.Compare(free.first) >= 0 })
		for _, u := range used[from:] {
			cut := inventory.RangeOf(u.Prefix)
			if !overlaps(free, cut) {
				break
			}
			if free.first.Less(cut.First) {
				rest = append(rest, run{free.first, cut.First.Prev()})
			}
			if !cut.Last.Less(free.last) {
				free = run{}
				break
			}
			free.first = cut.Last.Next()
		}
		if free.first.IsValid() {
			rest = append(rest, free)
		}
	}
	return rest
}

// usedBy returns the block of an address that has an owner already.
func (x *poolIndex) usedBy(a netip.Addr) (u use, used bool) {
	i := sort.Search(len(x.used), func(i int) bool { return a.Less(x.used[i].Addr()) }) - 1
	if i < 0 || !x.used[i].Contains(a) {
		return use{}, false
	}
	return x.used[i], true
}

// Uses reports whether the inventory or the cluster itself uses a: it is a machine's,
// a router's, a pod's or a cluster IP, or cannot be a VIP.
func (x *poolIndex) Uses(a netip.Addr) bool {
	_, used := x.usedBy(a)
	return used
}

// externalOf lists the Services that have an address among their externalIPs, sorted.
func externalOf(taken []lb.Taken) map[netip.Addr][]lb.ServiceKey {
	all := map[netip.Addr][]lb.ServiceKey{}
	for _, t := range taken {
		if a := t.Prefix.Addr(); t.Service != (lb.ServiceKey{}) && !slices.Contains(all[a], t.Service) {
			all[a] = append(all[a], t.Service)
		}
	}
	for a := range all {
		slices.SortFunc(all[a], lb.ServiceKey.Compare)
	}
	return all
}

// isKept reports whether an address is kept for a Service, so that no pool gives it by itself.
func (x *poolIndex) isKept(a netip.Addr) bool {
	return x.reserved[a] != (lb.ServiceKey{}) || len(x.external[a]) > 0
}

// isOthersExternal reports whether an address is among the externalIPs of other Services, and not
// among those of this one. kube-proxy sends packets to it to their pods.
func (x *poolIndex) isOthersExternal(a netip.Addr, k lb.ServiceKey) bool {
	return len(x.external[a]) > 0 && !slices.Contains(x.external[a], k)
}

// isBarredByExternal reports whether the externalIPs of others keep an address from a Service. Users who may edit Services
// write those, and the operator writes reservations: a Service that has one gets the address. To refuse it would not end the
// rules of kube-proxy for the others.
func (x *poolIndex) isBarredByExternal(a netip.Addr, k lb.ServiceKey) bool {
	return x.isOthersExternal(a, k) && x.reserved[a] != k
}

// TakenBy names the owner of an address other than a Service, which as a rule is not given it then; empty: there is none. The
// name of a Service of another namespace is not disclosed.
func (x *poolIndex) TakenBy(addr netip.Addr, key lb.ServiceKey) string {
	if u, used := x.usedBy(addr); used && u.who != "" {
		if u.IsSingleIP() {
			return u.who
		}
		return fmt.Sprintf("%s (%v)", u.who, u.Prefix)
	}
	if !x.isOthersExternal(addr, key) {
		return ""
	}
	if i := slices.IndexFunc(x.external[addr], func(o lb.ServiceKey) bool { return o.Namespace == key.Namespace }); i >= 0 {
		return "the externalIPs of service " + x.external[addr][i].String()
	}
	return "the externalIPs of a Service of another namespace"
}
