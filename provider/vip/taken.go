package vip

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/taken"
)

// takers are the listers of the objects that may use addresses.
type takers struct {
	nodes    corelisters.NodeLister
	services corelisters.ServiceLister
	cidrs    networkinglisters.ServiceCIDRLister
}

func (b *environment) takers() takers {
	return takers{b.cluster.Informers.Core().V1().Nodes().Lister(), b.services, b.cluster.Informers.Networking().V1().ServiceCIDRs().Lister()}
}

// taken returns the addresses in the pools of an inventory that the cluster uses, and all blocks that it allocates cluster IPs from.
func (t takers) taken(inv *inventory.Inventory) []lb.Taken {
	nodes, _ := t.nodes.List(labels.Everything()) // a cache never fails
	services, _ := t.services.List(labels.Everything())
	cidrs, _ := t.cidrs.List(labels.Everything())
	pools := inv.PoolRanges()
	return taken.In(nodes, services, cidrs, func(t lb.Taken) bool { return counts(pools, t) })
}

// counts leaves out what no pool has: of 1,600 Nodes, as a rule all. A ServiceCIDR counts in any case, since no status may
// show what is in it.
func counts(pools inventory.PoolRanges, t lb.Taken) bool {
	isServiceCIDR := t.Proxied && t.Service == lb.ServiceKey{}
	return isServiceCIDR || len(pools.Having(t.Prefix)) > 0
}

// poolsChange sets the pools anew when the cluster begins, or ceases, to use addresses of theirs. Most changes of
// Nodes and Services are none of these. Before an inventory is in force there are no pools; the code that sets the first reads the
// cluster, too.
func (b *Controller) poolsChange(ctx context.Context) cache.ResourceEventHandler {
	changed := func(was, is []lb.Taken) {
		inv := b.options.InForce.Get()
		if slices.Equal(was, is) || inv == nil || !closed(b.loaded) {
			return
		}
		pools := inv.PoolRanges()
		none := func(t lb.Taken) bool { return !counts(pools, t) }
		if !slices.Equal(slices.DeleteFunc(was, none), slices.DeleteFunc(is, none)) {
			_ = b.setPools(ctx) // fails only where who sets the next looks at the cluster, too
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, taken.By(obj)) },
		UpdateFunc: func(was, is any) { changed(taken.By(was), taken.By(is)) },
		DeleteFunc: func(obj any) { changed(taken.By(obj), nil) },
	}
}

// tellTaken records an Event on a Service of which a pool has externalIPs, once, and again when they change.
func (b *Controller) tellTaken(svc *v1.Service) {
	inv := b.options.InForce.Get()
	if len(svc.Spec.ExternalIPs) > 0 && (inv == nil || !closed(b.ready)) {
		return // who holds what is not known yet
	}
	if in := b.externalsInPools(svc, inv); len(in) > 0 {
		b.cluster.Reports.Warn(svc, string(lb.PoolTakesAddress), inventory.ShortenText(fmt.Sprintf("of its externalIPs %s: no other Service is given them as a VIP, but for one that has it already, or that it is reserved for. "+
			"Take them off the Service, or put them into the exclude of the pool", strings.Join(in, ", ")), maxEvent))
	} else {
		b.cluster.Reports.Clear(svc, string(lb.PoolTakesAddress))
	}
}

// externalsInPools tells which externalIPs of a Service are in which pool, but for those that are its VIP as well, or that it
// asks for.
func (b *store) externalsInPools(svc *v1.Service, inv *inventory.Inventory) (in []string) {
	external := taken.ByExternalIPs(svc)
	if len(external) == 0 {
		return nil
	}
	pools, own := inv.PoolRanges(), requestOf(svc).Addrs
	for _, t := range external {
		a := t.Prefix.Addr()
		is := slices.Contains(own, a) || ask(b, func(s *ipam.State) bool { return s.IsHolder(a, t.Service) })
		if having := pools.Having(t.Prefix); len(having) > 0 && !is {
			in = append(in, fmt.Sprintf("%v is in pool %s", a, having[0]))
		}
	}
	return in
}

// tellAllTaken is tellTaken for all Services: the pools are others now.
func (b *Controller) tellAllTaken() {
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	for _, svc := range all {
		if len(svc.Spec.ExternalIPs) > 0 {
			b.tellTaken(svc)
		}
	}
}
