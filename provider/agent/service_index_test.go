package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

func key(name string) lb.ServiceKey { return lb.ServiceKey{Namespace: "prod", Name: name} }

func vip(s string) netip.Addr { return netip.MustParseAddr(s) }

func ready(addr string, local bool) endpoint {
	return endpoint{vip(addr), unique.Make(""), advertise.Endpoint{Local: local, Ready: true, Serving: true}}
}

// seeded is a catalog with one Service that holds two VIPs.
func seeded() *catalog {
	c := newCatalog()
	c.serviceChanged("", nil, &service{Key: key("web"), UID: "1", Ours: true})
	c.claimChanged("", nil, &claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.claimChanged("", nil, &claim{VIP: vip("2001:db8::5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.sliceChanged("web-4", nil, &endpointSlice{Service: key("web"), IPv4: true, All: []endpoint{ready("10.0.0.1", true), ready("10.0.0.2", false)}})
	c.sliceChanged("web-6", nil, &endpointSlice{Service: key("web"), All: []endpoint{ready("fd00::2", false)}})
	return c
}

func offers(c *catalog) (out []string) {
	for o := range c.all().All() {
		out = append(out, fmt.Sprintf("%v [%v] local=%v %d/%d", o.Service, o.VIP, o.LocalTraffic, o.Endpoints.Local, o.Endpoints.Any))
	}
	slices.Sort(out)
	return out
}

func TestOffers(t *testing.T) {
	web := claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"}
	both := []string{"prod/web [2001:db8::5] local=false 0/1", "prod/web [203.0.113.5] local=false 1/2"}
	tests := []struct {
		name   string
		change func(*catalog)
		want   []string
	}{
		{"each family has the endpoints of its own", func(*catalog) {}, both},
		{"a Service without a claim offers nothing", func(c *catalog) {
			c.serviceChanged("", nil, &service{Key: key("other"), UID: "2", Ours: true})
		}, both},
		{"each of several VIPs of a family", func(c *catalog) {
			c.claimChanged("", nil, &claim{VIP: vip("203.0.113.6"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
		}, []string{both[0], both[1], "prod/web [203.0.113.6] local=false 1/2"}},
		{"a claim that goes takes its VIP along", func(c *catalog) { c.claimChanged("", &web, nil) }, both[:1]},
		{"a claim that changes hands does so at once", func(c *catalog) {
			c.serviceChanged("", nil, &service{Key: key("other"), UID: "2", Ours: true})
			c.claimChanged("", &web, &claim{VIP: web.VIP, Holders: []lb.ServiceKey{key("other")}, UID: "2"})
		}, []string{"prod/other [203.0.113.5] local=false 0/0", both[0]}},
		{"a claim of an earlier Service of that name counts for nothing", func(c *catalog) {
			c.serviceChanged("", &service{Key: key("web"), UID: "1", Ours: true}, &service{Key: key("web"), UID: "9", Ours: true})
		}, nil},
		{"a Service of another class offers nothing", func(c *catalog) {
			c.serviceChanged("", &service{Key: key("web"), UID: "1", Ours: true}, &service{Key: key("web"), UID: "1"})
		}, nil},
		{"a shared VIP is offered by each of its holders", func(c *catalog) {
			c.serviceChanged("", nil, &service{Key: key("dns"), UID: "3", Ours: true, LocalTraffic: true})
			c.claimChanged("", &web, &claim{VIP: web.VIP, Holders: []lb.ServiceKey{key("web"), key("dns")}, UID: "1"})
		}, []string{"prod/dns [203.0.113.5] local=true 0/0", both[0], both[1]}},
		{"an endpoint that two slices list counts once", func(c *catalog) {
			c.sliceChanged("web-4b", nil, &endpointSlice{Service: key("web"), IPv4: true, All: []endpoint{ready("10.0.0.1", true)}})
		}, both},
		{"a Service that goes offers nothing", func(c *catalog) {
			c.serviceChanged("", &service{Key: key("web"), UID: "1", Ours: true}, nil)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := seeded()
			c.all()
			tt.change(c)
			if d := cmp.Diff(tt.want, offers(c)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestOffersOfManyEventsAreThoseOfAFreshStart is the law that lets the catalog work
// out only what an event touched.
func TestOffersOfManyEventsAreThoseOfAFreshStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCatalog()
		services, claims := map[string]service{}, map[string]claim{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		addr := rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.3", "2001:db8::1"})
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				replaceIn(services, name.Draw(t, "service"), func(k string) *service { return &service{Key: key(k), Ours: true} }, c.serviceChanged)
			case 1:
				replaceIn(services, name.Draw(t, "service"), func(string) *service { return nil }, c.serviceChanged)
			case 2:
				holder := name.Draw(t, "holder")
				replaceIn(claims, addr.Draw(t, "VIP"), func(k string) *claim { return &claim{VIP: vip(k), Holders: []lb.ServiceKey{key(holder)}} }, c.claimChanged)
			case 3:
				replaceIn(claims, addr.Draw(t, "VIP"), func(string) *claim { return nil }, c.claimChanged)
			case 4:
				c.all()
			}
		}
		fresh := newCatalog()
		for k, s := range services {
			fresh.serviceChanged(k, nil, &s)
		}
		for k, cl := range claims {
			fresh.claimChanged(k, nil, &cl)
		}
		if got, want := c.all(), fresh.all(); !got.Equal(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestEndpointInTwoSlicesIsTheOneThatCanTakeTraffic(t *testing.T) {
	addr := vip("10.244.1.9")
	ready, ending, dead := advertise.Endpoint{Local: true, Ready: true}, advertise.Endpoint{Local: true, Serving: true, Terminating: true}, advertise.Endpoint{Local: true}
	for _, both := range [][2]advertise.Endpoint{{ready, dead}, {ready, ending}, {ending, dead}} {
		for range 20 { // the order of a map is another each time
			c := newCatalog()
			for i, e := range both {
				c.sliceChanged(fmt.Sprintf("prod/web-%d", i), nil, &endpointSlice{Service: key("web"), IPv4: true, All: []endpoint{{addr, unique.Make(""), e}}})
			}
			if got, _ := c.count(key("web"), true); got != advertise.Count(both[:1]) {
				t.Fatalf("of %+v: %+v, want %+v", both, got, advertise.Count(both[:1]))
			}
		}
	}
}

// replaceIn does to a mirror's items what the API server would.
func replaceIn[V any](items map[string]V, k string, make func(string) *V, change func(string, *V, *V)) {
	var old *V
	if v, had := items[k]; had {
		old = &v
	}
	v := make(k)
	if v == nil {
		delete(items, k)
	} else {
		items[k] = *v
	}
	if old != nil || v != nil {
		change(k, old, v)
	}
}

func TestAVIPOnALinkSaysWhereItsEndpointsAreAndWhoIsToAnswer(t *testing.T) {
	c := newCatalog()
	on := func(node string, e advertise.Endpoint, addr string) endpoint {
		return endpoint{vip(addr), unique.Make(node), e}
	}
	readyOn := advertise.Endpoint{Ready: true, Serving: true}
	ending := advertise.Endpoint{Serving: true, Terminating: true}
	c.serviceChanged("", nil, &service{Key: key("web"), UID: "1", Ours: true, LocalTraffic: true, Home: "w2"})
	c.claimChanged("", nil, &claim{VIP: vip("192.168.1.200"), Holders: []lb.ServiceKey{key("web")}, UID: "1", Homes: "w2,w1"})
	c.claimChanged("", nil, &claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.sliceChanged("web-4", nil, &endpointSlice{Service: key("web"), IPv4: true, All: []endpoint{on("w2", readyOn, "10.0.0.2"), on("w1", readyOn, "10.0.0.1"), on("w3", ending, "10.0.0.3")}})
	linkOf := func() (on, off advertise.OnLink) {
		for o := range c.all().All() {
			if o.VIP == vip("192.168.1.200") {
				on = o.Link
			} else {
				off = o.Link
			}
		}
		return on, off
	}
	if on, off := linkOf(); on != (advertise.OnLink{}) || off != (advertise.OnLink{}) {
		t.Errorf("before there is a link: %+v, %+v", on, off)
	}
	c.followLinks([]netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")})
	if on, off := linkOf(); on != (advertise.OnLink{Homes: "w2,w1", Home: "w2", At: "w1,w2"}) || off != (advertise.OnLink{}) {
		t.Errorf("on a link: %+v, over BGP: %+v", on, off)
	}
	c.sliceChanged("web-4", &endpointSlice{Service: key("web"), IPv4: true}, &endpointSlice{Service: key("web"), IPv4: true, All: []endpoint{on("w3", ending, "10.0.0.3")}})
	if on, _ := linkOf(); on.At != "w3" {
		t.Errorf("with an endpoint that ends alone it is at %q", on.At)
	}
}
