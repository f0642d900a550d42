package vip

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// retainedSays are the messages to a Service on a VIP that it keeps although no pool would grant it now, by reason.
var retainedSays = map[lb.Reason]string{
	lb.VIPOutsidePools:     "is kept, but no pool has it any more, so it is not announced",
	lb.PoolIsDisabled:      "is kept, but its pool is disabled, so it is not announced",
	lb.AddressExcluded:     "is kept and announced, but its pool leaves it out now, or a machine, a router or the cluster uses it",
	lb.AddressReserved:     "is kept and announced, but is reserved for another Service now",
	lb.NamespaceNotAllowed: "is kept and announced, but its pool is for other namespaces now",
	lb.LabelsNotSelected:   "is kept and announced, but its pool is for Services with other labels now",
}

// retainedVIPs are the VIPs that Services keep although no pool would grant them now.
type retainedVIPs struct {
	*environment
	told map[retainedVIP]string // what is said of each; written with the store's lock held
}

// retainedVIP is a VIP that a Service keeps.
type retainedVIP struct {
	vip     netip.Addr
	service lb.ServiceKey
}

// report tells Services which of their VIPs they would not get from these pools, and
// whether it is announced all the same.
func (r *retainedVIPs) report(state *ipam.State, inv *inventory.Inventory) {
	told := map[retainedVIP]string{}
	for _, held := range state.Holdings() {
		for _, holder := range held.Holders {
			svc, err := r.services.Services(holder.Service.Namespace).Get(holder.Service.Name)
			if err != nil {
				continue
			}
			reason := r.reasonOf(state, inv, held.Addr, svc)
			if reason == "" {
				continue
			}
			k, says := retainedVIP{held.Addr, holder.Service}, retainedSays[reason]
			if who := state.TakenBy(held.Addr, holder.Service); reason == lb.AddressExcluded && who != "" {
				says = "is kept and announced, but is taken by " + who + ", too"
			}
			if told[k] = says; r.told[k] != says {
				r.log.Warn("kept a VIP that would not be given now", "vip", held.Addr, "service", holder.Service, "reason", reason)
				r.cluster.Recorder.Eventf(svc, v1.EventTypeWarning, string(reason), "%v %s", held.Addr, says)
			}
		}
	}
	r.told = told
}

// reasonOf returns the reason for which a Service would not get a VIP that it holds; empty: it would get it. What
// decides whether machines announce it comes first. A pool that is being drained is left
// out: that its VIPs stay is what it is for. Who has it reserved would get it although others
// have it among their externalIPs, and is told of those all the same.
func (r *retainedVIPs) reasonOf(state *ipam.State, inv *inventory.Inventory, addr netip.Addr, svc *v1.Service) lb.Reason {
	by := slices.IndexFunc(inv.Pools, func(p inventory.Pool) bool { return p.Covers(addr) })
	switch {
	case by < 0:
		return lb.VIPOutsidePools
	case inv.Pools[by].State == inventory.PoolDisabled:
		return lb.PoolIsDisabled
	}
	reason := state.MayAdopt(addr, requestOf(svc), r.now())
	if reason == "" && state.TakenBy(addr, keyOf(svc)) != "" {
		return lb.AddressExcluded
	}
	if _, told := retainedSays[reason]; !told {
		return ""
	}
	return reason
}
