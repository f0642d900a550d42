package agent

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb"
)

// catalog joins Services, claims and endpoints to offers. It works out anew only
// what an event touched, so that one Service among ten thousand costs what it
// costs alone. The mirrors' lock guards it.
type catalog struct {
	services map[lb.ServiceKey]service
	claims   map[lb.ServiceKey]map[netip.Addr]claim
	slices   map[lb.ServiceKey]map[string]endpoints
	touched  map[lb.ServiceKey]struct{}
	offers   map[lb.ServiceKey][]lb.Offer
	sorted   []lb.Offer // all offers by their first VIP, the order that announcements have
	given    bool       // sorted was handed out: it must not change any more
	changes  uint64     // of sorted, so far
}

func newCatalog() *catalog {
	return &catalog{
		services: map[lb.ServiceKey]service{}, claims: map[lb.ServiceKey]map[netip.Addr]claim{},
		slices: map[lb.ServiceKey]map[string]endpoints{}, touched: map[lb.ServiceKey]struct{}{}, offers: map[lb.ServiceKey][]lb.Offer{},
	}
}

func (c *catalog) touch(k lb.ServiceKey) { c.touched[k] = struct{}{} }

func (c *catalog) serviceChanged(_ string, old, new *service) {
	if old != nil {
		delete(c.services, old.Key)
		c.touch(old.Key)
	}
	if new != nil {
		c.services[new.Key] = *new
		c.touch(new.Key)
	}
}

func (c *catalog) claimChanged(_ string, old, new *claim) {
	if old != nil {
		for _, k := range old.Holders {
			remove(c.claims, k, old.VIP)
			c.touch(k)
		}
	}
	if new != nil {
		for _, k := range new.Holders {
			insert(c.claims, k, new.VIP, *new)
			c.touch(k)
		}
	}
}

func (c *catalog) sliceChanged(key string, old, new *endpoints) {
	if old != nil {
		remove(c.slices, old.Service, key)
		c.touch(old.Service)
	}
	if new != nil && new.Service != (lb.ServiceKey{}) {
		insert(c.slices, new.Service, key, *new)
		c.touch(new.Service)
	}
}

func insert[K, N comparable, V any](m map[K]map[N]V, k K, name N, v V) {
	if m[k] == nil {
		m[k] = map[N]V{}
	}
	m[k][name] = v
}

func remove[K, N comparable, V any](m map[K]map[N]V, k K, name N) {
	delete(m[k], name)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// all returns the offers of all Services, sorted by VIP. The caller may keep them, and
// must not change them: they are the same ones until changes says otherwise. Many
// events change nothing here: a Service comes before its VIP does.
func (c *catalog) all() []lb.Offer {
	if len(c.touched) > len(c.offers)/8 {
		c.rebuild()
	} else {
		for k := range c.touched {
			c.update(k)
		}
	}
	clear(c.touched)
	c.given = true
	return c.sorted
}

// update works out the offers of one Service and puts them in their places.
func (c *catalog) update(k lb.ServiceKey) {
	before, now := c.offers[k], c.offer(k)
	if slices.EqualFunc(before, now, sameOffer) {
		return
	}
	c.change()
	for _, o := range before {
		if i, ok := slices.BinarySearchFunc(c.sorted, o, compareOffers); ok {
			c.sorted = slices.Delete(c.sorted, i, i+1)
		}
	}
	c.store(k, now)
	for _, o := range now {
		i, _ := slices.BinarySearchFunc(c.sorted, o, compareOffers)
		c.sorted = slices.Insert(c.sorted, i, o)
	}
}

// change is to be called before sorted changes.
func (c *catalog) change() {
	if c.changes++; c.given {
		c.sorted, c.given = slices.Clone(c.sorted), false
	}
}

func sameOffer(a, b lb.Offer) bool {
	return a.Service == b.Service && a.LocalTraffic == b.LocalTraffic && a.Endpoints == b.Endpoints && slices.Equal(a.VIPs, b.VIPs)
}

func (c *catalog) store(k lb.ServiceKey, offers []lb.Offer) {
	if len(offers) > 0 {
		c.offers[k] = offers
	} else {
		delete(c.offers, k)
	}
}

// rebuild is for when so much changed that sorting anew is cheaper.
func (c *catalog) rebuild() {
	for k := range c.touched {
		c.store(k, c.offer(k))
	}
	c.changes++
	c.sorted, c.given = make([]lb.Offer, 0, len(c.offers)), false
	for _, offers := range c.offers {
		c.sorted = append(c.sorted, offers...)
	}
	slices.SortFunc(c.sorted, compareOffers)
}

func compareOffers(a, b lb.Offer) int {
	return cmp.Or(a.VIPs[0].Compare(b.VIPs[0]), cmp.Compare(a.Service.Namespace, b.Service.Namespace), cmp.Compare(a.Service.Name, b.Service.Name))
}

// offer is what a Service offers: its VIPs of each family with the endpoints of
// that family. A VIP is its own if the claim of that name says so; what the
// Service's status says counts for nothing (CVE-2020-8554).
func (c *catalog) offer(k lb.ServiceKey) []lb.Offer {
	s, ok := c.services[k]
	if !ok || !s.Ours {
		return nil
	}
	var out []lb.Offer
	for _, ipv4 := range []bool{true, false} {
		o := lb.Offer{Service: k, LocalTraffic: s.LocalTraffic}
		for vip, claim := range c.claims[k] {
			if vip.Is4() == ipv4 && claim.heldBy(s) {
				o.VIPs = append(o.VIPs, vip)
			}
		}
		if len(o.VIPs) == 0 {
			continue
		}
		slices.SortFunc(o.VIPs, netip.Addr.Compare)
		o.Endpoints = c.count(k, ipv4)
		out = append(out, o)
	}
	return out
}

// heldBy reports whether a claim that names the Service means this one, and not an
// earlier one of the same name.
func (c claim) heldBy(s service) bool {
	return c.Holders[0] != s.Key || c.UID == "" || c.UID == s.UID
}

func (c *catalog) count(k lb.ServiceKey, ipv4 bool) lb.Endpoints {
	byAddr := map[netip.Addr]lb.Endpoint{}
	for _, slice := range c.slices[k] {
		if slice.IPv4 != ipv4 {
			continue
		}
		for _, e := range slice.All {
			if have, twice := byAddr[e.Addr]; !twice || !have.Ready {
				byAddr[e.Addr] = e.Endpoint
			}
		}
	}
	all := make([]lb.Endpoint, 0, len(byAddr))
	for _, e := range byAddr {
		all = append(all, e)
	}
	return lb.Count(all)
}
