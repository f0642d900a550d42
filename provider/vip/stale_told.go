package vip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// explainStaleLocked says of each address that is denied since a stale status shows it why
// that is so. The name of a Service of another namespace is told to nobody. b.mu is held.
func (b *Controller) explainStaleLocked(k lb.ServiceKey, denials []ipam.Denial) {
	for i, d := range denials {
		by := without(b.stale[d.Address], k)
		if c, _ := b.ledger.Claim(d.Address); d.Reason != lb.AddressInUse || b.foreign[d.Address] || len(c.Holders) > 0 || len(by) == 0 {
			continue
		}
		who := "a Service of another namespace"
		if j := slices.IndexFunc(by, func(o lb.ServiceKey) bool { return o.Namespace == k.Namespace }); j >= 0 {
			who = "Service " + by[j].String()
		}
		denials[i].Detail = "the status of " + who + " shows it; it is free once that is cleared"
	}
}

// tellStale records an Event on a Service whose status keeps addresses of pools from
// everybody and is not Plinth's to clear: once, and again when the addresses change.
func (b *Controller) tellStale(svc *v1.Service) {
	shown := b.keptByOther(svc)
	if len(shown) == 0 {
		b.cluster.Reports.Clear(svc, string(lb.StatusNotHeld))
		return
	}
	b.cluster.Reports.Warn(svc, string(lb.StatusNotHeld), bounded(fmt.Sprintf("the status shows %s, which Plinth has not given to this Service, and gives to nobody before the status shows it no more. "+
		"If no other balancer serves this Service: kubectl patch service %s -n %s --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":null}}'",
		strings.Join(shown, ", "), svc.Name, svc.Namespace), maxEvent))
}

// keptByOther returns the addresses that nobody gets since the status of a Service shows
// them, if it is not Plinth's to clear.
func (b *Controller) keptByOther(svc *v1.Service) (shown []string) {
	if b.isOurs(svc) || b.served(svc) && !b.keepsVIPs(svc) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.unheld(svc) {
		if c, _ := b.ledger.Claim(a); slices.Contains(b.stale[a], keyOf(svc)) && len(c.Holders) == 0 {
			shown = append(shown, a.String())
		}
	}
	return shown
}

// forgetReports has a Service that is gone take no memory.
func (b *Controller) forgetReports(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if svc, ok := obj.(*v1.Service); ok {
		b.cluster.Reports.Clear(svc, string(lb.StatusNotHeld))
		b.cluster.Reports.Clear(svc, reasonSyncFailed)
	}
}

// queueStaleLocked has the Services looked at whose statuses show an address. b.mu is held.
func (b *Controller) queueStaleLocked(a netip.Addr) {
	for _, k := range b.stale[a] {
		b.queue.Add(k.String())
	}
}
