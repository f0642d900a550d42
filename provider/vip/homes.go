package vip

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/wake"
)

const (
	// homesEvery is how often at most it is looked whether VIPs on links have the homes that they are
	// to have: many Services that come at once are looked at together.
	homesEvery = 500 * time.Millisecond
	// homesAlways is how often at least.
	homesAlways = time.Minute
)

// homes are the machines that are to answer for VIPs on links, as this process has chosen them last: the
// objects may say so a moment later.
type homes struct {
	changed chan struct{}

	onLinks bool // there were VIPs on links when it was looked last; used by [Controller.followHomes] alone

	mu     sync.Mutex
	chosen map[netip.Addr][]string
	making map[netip.Addr]lb.ServiceKey // VIPs whose objects are about to be made, and for whom
}

func newHomes() homes {
	return homes{changed: make(chan struct{}, 1), chosen: map[netip.Addr][]string{}, making: map[netip.Addr]lb.ServiceKey{}, onLinks: true}
}

// made records that the object of a VIP exists, or will not.
func (h *homes) made(a netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.making, a)
}

// look schedules a review of the homes.
func (h *homes) look() { wake.Up(h.changed) }

// followHomes reconciles the homes in the objects of VIPs on links, the machines that are to answer for them, until ctx ends.
func (b *Controller) followHomes(ctx context.Context) {
	inForce := b.options.InForce.Changes()
	for ctx.Err() == nil {
		b.writeHomes(ctx)
		wake.After(ctx, homesEvery)
		select {
		case <-ctx.Done():
		case <-inForce:
		case <-b.homes.changed:
		case <-time.After(homesAlways):
		}
	}
}

// writeHomes writes the homes of the VIPs that have others than they are to have. One that fails is tried
// again with the next look.
func (b *store) writeHomes(ctx context.Context) {
	inv := b.options.InForce.Get()
	if inv == nil || len(inv.Links()) == 0 && !b.homes.onLinks {
		return
	}
	b.homes.onLinks = len(inv.Links()) > 0
	for _, o := range b.strayHomes() {
		if err := b.writeHome(ctx, o.Addr); err != nil && ctx.Err() == nil {
			b.log.Warn("cannot write which machines are to answer for a VIP", "vip", o.Addr, "err", err)
			b.homes.onLinks = true
			b.homes.look()
			return
		}
	}
}

// kept are the objects that homes are chosen for: one whose VIP was released may be there for some seconds more, and
// would have VIPs in use moved once it goes.
func (b *store) kept() []ipam.Object { return ask(b, (*ipam.State).Kept) }

// strayHomes are the objects that name other homes than they are to.
func (b *store) strayHomes() []ipam.Object {
	objects := b.kept()
	chosen := b.chooseHomes(objects)
	return slices.DeleteFunc(objects, func(o ipam.Object) bool { return o.Homes == strings.Join(chosen[o.Addr], ",") })
}

// writeHome writes the homes of one VIP, as they are chosen once nobody else writes its object.
func (b *store) writeHome(ctx context.Context, addr netip.Addr) error {
	defer b.ofAddress.lock(addr.String())()
	asked, objects := b.deletionsTold(), b.kept()
	at := slices.IndexFunc(objects, func(o ipam.Object) bool { return o.Addr == addr })
	homes := strings.Join(b.chooseHomes(objects)[addr], ",")
	if at < 0 || objects[at].Homes == homes {
		return nil
	}
	obj, err := b.claims.SetHomes(ctx, objects[at], homes)
	_, err = b.wrote(ctx, addr, asked, obj, err)
	return err
}

// reasonOwner is the reason of the Event that names the machine which answers for a VIP on a link.
const reasonOwner = "OwnerChanged"

// recordOwner records an Event on each holder of a VIP on a link for which another machine answers than
// before.
func (b *store) recordOwner(before, object ipam.Object) {
	if before.UID != object.UID || before.Owner == object.Owner || object.Owner == "" {
		return
	}
	message := fmt.Sprintf("%s answers for %s", object.Owner, object.Addr)
	if before.Owner != "" {
		message += ", as " + before.Owner + " did"
	}
	for _, k := range object.Holders {
		if svc := b.service(k); svc != nil {
			b.cluster.Recorder.Event(svc, v1.EventTypeNormal, reasonOwner, message)
		}
	}
}

// homesFor chooses the homes of a VIP that a Service is about to hold; empty: it is on no link.
func (b *store) homesFor(addr netip.Addr, key lb.ServiceKey) string {
	inv := b.options.InForce.Get()
	if inv == nil {
		return ""
	}
	if _, onLink := inv.LinkSubnet(addr); !onLink {
		return ""
	}
	objects := b.kept()
	b.homes.mu.Lock()
	b.homes.making[addr] = key
	b.homes.mu.Unlock()
	return strings.Join(b.chooseHomes(objects)[addr], ",")
}

// chooseHomes chooses the homes of all VIPs on links: of objects, and of those that are about to be made.
func (b *store) chooseHomes(objects []ipam.Object) map[netip.Addr][]string {
	inv := b.options.InForce.Get()
	if inv == nil {
		return nil
	}
	b.homes.mu.Lock()
	defer b.homes.mu.Unlock()
	for _, o := range objects {
		delete(b.homes.making, o.Addr)
	}
	objects = slices.Clone(objects)
	for a, k := range b.homes.making {
		objects = append(objects, ipam.Object{Addr: a, Holders: []lb.ServiceKey{k}})
	}
	chosen := map[netip.Addr][]string{}
	for _, link := range inv.Links() {
		var all []advertise.Home
		for _, o := range objects {
			if on, is := inv.LinkSubnet(o.Addr); is && on == link.Subnet {
				all = append(all, b.homeOf(inv, link, o))
			}
		}
		maps.Copy(chosen, advertise.Homes(link.ActiveMachines(), all))
	}
	b.homes.chosen = chosen
	return chosen
}

// homeOf is a VIP on a link as its homes are chosen by.
func (b *store) homeOf(inv *inventory.Inventory, link inventory.Link, object ipam.Object) advertise.Home {
	home := advertise.Home{VIP: object.Addr, Held: b.homes.chosen[object.Addr]}
	if len(home.Held) == 0 && object.Homes != "" {
		home.Held = strings.Split(object.Homes, ",")
	}
	pool, _ := inv.PoolOf(object.Addr)
	var labels []map[string]string
	for _, k := range object.Holders {
		if svc := b.service(k); svc != nil {
			labels = append(labels, svc.Labels)
			if pin := svc.Annotations[lb.HomeAnnotation]; pin != "" && home.Pin == "" {
				home.Pin = pin
			}
		}
	}
	home.May = advertise.MayOf(&pool, link, labels)
	return home
}
