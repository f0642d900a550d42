package vip

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// retainedSays is what a Service is told of a VIP that it keeps.
var retainedSays = map[lb.Reason]string{
	lb.VIPOutsidePools:     "is kept, but no pool has it any more, so it is not announced",
	lb.PoolIsDisabled:      "is kept, but its pool is disabled, so it is not announced",
	lb.AddressExcluded:     "is kept and announced, but its pool leaves it out now, or a machine, a router or the cluster uses it",
	lb.AddressReserved:     "is kept and announced, but is reserved for another Service now",
	lb.NamespaceNotAllowed: "is kept and announced, but its pool is for other namespaces now",
	lb.LabelsNotSelected:   "is kept and announced, but its pool is for Services with other labels now",
}

// reportRetained tells Services which of their VIPs they would not get from these pools, and
// whether it is announced all the same.
func (b *Controller) reportRetained(s *ipam.State, inv *inventory.Inventory) {
	retained := map[retainedVIP]string{}
	for _, c := range s.Holdings() {
		for _, h := range c.Holders {
			svc, err := b.services.Services(h.Service.Namespace).Get(h.Service.Name)
			if err != nil {
				continue
			}
			reason := b.retainedThough(s, inv, c.Addr, svc)
			if reason == "" {
				continue
			}
			k, says := retainedVIP{c.Addr, h.Service}, retainedSays[reason]
			if who := s.TakenBy(c.Addr, h.Service); reason == lb.AddressExcluded && who != "" {
				says = "is kept and announced, but is taken by " + who + ", too"
			}
			if retained[k] = says; b.retained[k] != says {
				b.log.Warn("a VIP is kept that would not be given now", "vip", c.Addr, "service", h.Service, "reason", reason)
				b.cluster.Recorder.Eventf(svc, v1.EventTypeWarning, string(reason), "%v %s", c.Addr, says)
			}
		}
	}
	b.retained = retained
}

// retainedThough says why a Service would not get a VIP that it holds; empty: it would. What
// decides whether machines announce it comes first. A pool that is being drained is left
// out: that its VIPs stay is what it is for. Who has it reserved would get it although others
// have it among their externalIPs, and is told of those all the same.
func (b *Controller) retainedThough(s *ipam.State, inv *inventory.Inventory, a netip.Addr, svc *v1.Service) lb.Reason {
	by := slices.IndexFunc(inv.Pools, func(p inventory.Pool) bool { return p.Covers(a) })
	switch {
	case by < 0:
		return lb.VIPOutsidePools
	case inv.Pools[by].State == inventory.PoolDisabled:
		return lb.PoolIsDisabled
	}
	reason := s.MayAdopt(a, requestOf(svc), b.now())
	if reason == "" && s.TakenBy(a, keyOf(svc)) != "" {
		return lb.AddressExcluded
	}
	if _, told := retainedSays[reason]; !told {
		return ""
	}
	return reason
}
