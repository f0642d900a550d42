package offers

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// Index joins Services, claims and endpoints to offers. It replans only
// the Services that an event touched, so that one Service among ten thousand costs as much as it
// costs alone. The lock of its user guards it.
type Index struct {
	services map[lb.ServiceKey]Service
	claims   byService[netip.Addr, Claim]
	slices   byService[string, EndpointSlice]
	touched  map[lb.ServiceKey]struct{}
	offers   map[lb.ServiceKey][]advertise.Offer
	offered  sorted.List[advertise.Offer] // all of them
	links    []netip.Prefix               // subnets that VIPs are announced on, sorted
	changes  uint64                       // of offered, so far
}

// NewIndex returns one of nothing.
func NewIndex() *Index {
	return &Index{
		services: map[lb.ServiceKey]Service{}, claims: byService[netip.Addr, Claim]{},
		slices: byService[string, EndpointSlice]{}, touched: map[lb.ServiceKey]struct{}{}, offers: map[lb.ServiceKey][]advertise.Offer{},
	}
}

func (c *Index) touch(k lb.ServiceKey) { c.touched[k] = struct{}{} }

// ServiceChanged replaces a Service by another; nil: it was not there, or is not any more. The first
// argument is not looked at.
func (c *Index) ServiceChanged(_ string, old, new *Service) {
	if old != nil {
		delete(c.services, old.Key)
		c.touch(old.Key)
	}
	if new != nil {
		c.services[new.Key] = *new
		c.touch(new.Key)
	}
}

// ClaimChanged says so of a claim.
func (c *Index) ClaimChanged(_ string, old, new *Claim) {
	if old != nil {
		for _, k := range old.Holders {
			c.claims.remove(k, old.VIP)
			c.touch(k)
		}
	}
	if new != nil {
		for _, k := range new.Holders {
			c.claims.put(k, new.VIP, *new)
			c.touch(k)
		}
	}
}

// SliceChanged says so of the EndpointSlice with a key.
func (c *Index) SliceChanged(key string, old, new *EndpointSlice) {
	if old != nil {
		c.slices.remove(old.Service, key)
		c.touch(old.Service)
	}
	if new != nil && new.Service != (lb.ServiceKey{}) {
		c.slices.put(new.Service, key, *new)
		c.touch(new.Service)
	}
}

// byService is what Services have several of, by names. Most have one or two: a map of one takes as much as of eight.
type byService[N comparable, V any] map[lb.ServiceKey][]named[N, V]

type named[N comparable, V any] struct {
	name  N
	value V
}

// find returns the place of a name; -1: it is not there.
func (b byService[N, V]) find(k lb.ServiceKey, name N) int {
	return slices.IndexFunc(b[k], func(x named[N, V]) bool { return x.name == name })
}

func (b byService[N, V]) put(k lb.ServiceKey, name N, v V) {
	if i := b.find(k, name); i >= 0 {
		b[k][i].value = v
		return
	}
	b[k] = append(b[k], named[N, V]{name, v})
}

func (b byService[N, V]) remove(k lb.ServiceKey, name N) {
	i := b.find(k, name)
	if i < 0 {
		return
	}
	if b[k] = slices.Delete(b[k], i, i+1); len(b[k]) == 0 {
		delete(b, k)
	}
}

// All returns the offers of all Services. They are the same ones until [Index.Changes] says
// otherwise. Many events change nothing here: a Service comes before its VIP does.
func (c *Index) All() sorted.List[advertise.Offer] {
	var gone, put []advertise.Offer
	for key := range c.touched {
		before, now := c.offers[key], c.offer(key)
		if slices.Equal(before, now) {
			continue
		}
		gone, put = append(gone, before...), append(put, now...)
		if c.offers[key] = now; len(now) == 0 {
			delete(c.offers, key)
		}
	}
	c.touched = map[lb.ServiceKey]struct{}{} // to clear one that was large once takes long
	if len(gone)+len(put) > 0 {
		c.offered = c.offered.Edit(gone, put)
		c.changes++
	}
	return c.offered
}

// offer returns the offers of a Service: each of its VIPs with the endpoints of that family. A
// VIP is its own if the claim of that name says so; what the Service's status says
// counts for nothing (CVE-2020-8554), but that kube-proxy has no rules for what it does not show.
func (c *Index) offer(key lb.ServiceKey) []advertise.Offer {
	service, ok := c.services[key]
	if !ok || !service.Ours {
		return nil
	}
	var out []advertise.Offer
	for _, one := range c.claims[key] {
		vip, claim := one.name, one.value
		if claim.heldBy(service) {
			endpoints, at := c.count(key, vip.Is4())
			frontend := service.Frontend
			frontend.Shown = slices.Contains(service.Shown, vip)
			offer := advertise.Offer{Service: key, VIP: vip, LocalTraffic: service.LocalTraffic, Endpoints: endpoints, Frontend: frontend, Labels: service.Labels}
			if slices.ContainsFunc(c.links, func(p netip.Prefix) bool { return p.Contains(vip) }) {
				offer.Link = advertise.OnLink{Homes: claim.Homes, Home: service.Home}
				if service.LocalTraffic {
					offer.Link.At = at()
				}
			}
			out = append(out, offer)
		}
	}
	slices.SortFunc(out, advertise.Offer.Compare)
	return out
}

// heldBy reports whether a claim that names the Service means this one, and not an
// earlier one of the same name.
func (c Claim) heldBy(s Service) bool {
	return c.Holders[0] != s.Key || c.UID == "" || c.UID == s.UID
}

// count counts the endpoints that can take traffic, as far as the proxy of the Service knows of them; at lists the machines that have them.
func (c *Index) count(k lb.ServiceKey, ipv4 bool) (n advertise.Endpoints, at func() string) {
	proxy := c.services[k].Frontend.Proxy
	byAddr := map[netip.Addr]Endpoint{}
	for _, one := range c.slices[k] {
		slice := one.value
		if slice.IPv4 != ipv4 {
			continue
		}
		notFollowed := !slice.Followers.Include(proxy)
		for _, e := range slice.All {
			e.NotFollowed = notFollowed
			if have, twice := byAddr[e.Addr]; !twice || have.Worth() < e.Worth() {
				byAddr[e.Addr] = e
			}
		}
	}
	all := make([]advertise.Endpoint, 0, len(byAddr))
	for _, e := range byAddr {
		all = append(all, e.Endpoint)
	}
	return advertise.Count(all), func() string { return machinesWith(byAddr) }
}

// machinesWith lists the machines with an endpoint that can take traffic: those with a ready one, or, where
// there is none, with one that serves while it terminates.
func machinesWith(byAddr map[netip.Addr]Endpoint) string {
	ready, ending := map[string]bool{}, map[string]bool{}
	for _, e := range byAddr {
		switch e.Worth() {
		case advertise.WorthReady:
			ready[e.Node.Value()] = true
		case advertise.WorthEnding:
			ending[e.Node.Value()] = true
		case advertise.WorthNotFollowed, advertise.WorthNothing:
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	return strings.Join(slices.Sorted(maps.Keys(ready)), ",")
}

// Changes is the number of times that the result of [Index.All] has changed.
func (c *Index) Changes() uint64 { return c.changes }

// FollowLinks sets the subnets on which VIPs are announced.
func (c *Index) FollowLinks(links []netip.Prefix) {
	if slices.Equal(links, c.links) {
		return
	}
	c.links = links
	for k := range c.services {
		c.touch(k)
	}
}
