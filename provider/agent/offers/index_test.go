package offers

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

func ready(addr string, local bool) Endpoint {
	return Endpoint{vip(addr), unique.Make(""), advertise.Endpoint{Local: local, Ready: true, Serving: true}}
}

// seeded is a catalog with one Service that holds two VIPs.
func seeded() *Index {
	c := NewIndex()
	c.ServiceChanged("", nil, &Service{Key: key("web"), UID: "1", Ours: true})
	c.ClaimChanged("", nil, &Claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.ClaimChanged("", nil, &Claim{VIP: vip("2001:db8::5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.SliceChanged("web-4", nil, &EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{ready("10.0.0.1", true), ready("10.0.0.2", false)}})
	c.SliceChanged("web-6", nil, &EndpointSlice{Service: key("web"), All: []Endpoint{ready("fd00::2", false)}})
	return c
}

func offers(c *Index) (out []string) {
	for o := range c.All().All() {
		out = append(out, fmt.Sprintf("%v [%v] local=%v %d/%d", o.Service, o.VIP, o.LocalTraffic, o.Endpoints.Local, o.Endpoints.Any))
	}
	slices.Sort(out)
	return out
}

func TestOffers(t *testing.T) {
	web := Claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"}
	both := []string{"prod/web [2001:db8::5] local=false 0/1", "prod/web [203.0.113.5] local=false 1/2"}
	tests := []struct {
		name   string
		change func(*Index)
		want   []string
	}{
		{"each family has the endpoints of its own", func(*Index) {}, both},
		{"a Service without a claim offers nothing", func(c *Index) {
			c.ServiceChanged("", nil, &Service{Key: key("other"), UID: "2", Ours: true})
		}, both},
		{"each of several VIPs of a family", func(c *Index) {
			c.ClaimChanged("", nil, &Claim{VIP: vip("203.0.113.6"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
		}, []string{both[0], both[1], "prod/web [203.0.113.6] local=false 1/2"}},
		{"a claim that goes takes its VIP along", func(c *Index) { c.ClaimChanged("", &web, nil) }, both[:1]},
		{"a claim that changes hands does so at once", func(c *Index) {
			c.ServiceChanged("", nil, &Service{Key: key("other"), UID: "2", Ours: true})
			c.ClaimChanged("", &web, &Claim{VIP: web.VIP, Holders: []lb.ServiceKey{key("other")}, UID: "2"})
		}, []string{"prod/other [203.0.113.5] local=false 0/0", both[0]}},
		{"a claim of an earlier Service of that name counts for nothing", func(c *Index) {
			c.ServiceChanged("", &Service{Key: key("web"), UID: "1", Ours: true}, &Service{Key: key("web"), UID: "9", Ours: true})
		}, nil},
		{"a Service of another class offers nothing", func(c *Index) {
			c.ServiceChanged("", &Service{Key: key("web"), UID: "1", Ours: true}, &Service{Key: key("web"), UID: "1"})
		}, nil},
		{"a shared VIP is offered by each of its holders", func(c *Index) {
			c.ServiceChanged("", nil, &Service{Key: key("dns"), UID: "3", Ours: true, LocalTraffic: true})
			c.ClaimChanged("", &web, &Claim{VIP: web.VIP, Holders: []lb.ServiceKey{key("web"), key("dns")}, UID: "1"})
		}, []string{"prod/dns [203.0.113.5] local=true 0/0", both[0], both[1]}},
		{"an endpoint that two slices list counts once", func(c *Index) {
			c.SliceChanged("web-4b", nil, &EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{ready("10.0.0.1", true)}})
		}, both},
		{"a Service that goes offers nothing", func(c *Index) {
			c.ServiceChanged("", &Service{Key: key("web"), UID: "1", Ours: true}, nil)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := seeded()
			c.All()
			tt.change(c)
			if d := cmp.Diff(tt.want, offers(c)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestOffersOfManyEventsAreThoseOfAFreshStart is the law that lets the index work
// out only what an event touched.
func TestOffersOfManyEventsAreThoseOfAFreshStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewIndex()
		services, claims := map[string]Service{}, map[string]Claim{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		addr := rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.3", "2001:db8::1"})
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				replaceIn(services, name.Draw(t, "service"), func(k string) *Service { return &Service{Key: key(k), Ours: true} }, c.ServiceChanged)
			case 1:
				replaceIn(services, name.Draw(t, "service"), func(string) *Service { return nil }, c.ServiceChanged)
			case 2:
				holder := name.Draw(t, "holder")
				replaceIn(claims, addr.Draw(t, "VIP"), func(k string) *Claim { return &Claim{VIP: vip(k), Holders: []lb.ServiceKey{key(holder)}} }, c.ClaimChanged)
			case 3:
				replaceIn(claims, addr.Draw(t, "VIP"), func(string) *Claim { return nil }, c.ClaimChanged)
			case 4:
				c.All()
			}
		}
		fresh := NewIndex()
		for k, s := range services {
			fresh.ServiceChanged(k, nil, &s)
		}
		for k, cl := range claims {
			fresh.ClaimChanged(k, nil, &cl)
		}
		if got, want := c.All(), fresh.All(); !got.Equal(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestEndpointInTwoSlicesIsTheOneThatCanTakeTraffic(t *testing.T) {
	addr := vip("10.244.1.9")
	ready, ending, dead := advertise.Endpoint{Local: true, Ready: true}, advertise.Endpoint{Local: true, Serving: true, Terminating: true}, advertise.Endpoint{Local: true}
	for _, both := range [][2]advertise.Endpoint{{ready, dead}, {ready, ending}, {ending, dead}} {
		for range 20 { // the order of a map is another each time
			c := NewIndex()
			for i, e := range both {
				c.SliceChanged(fmt.Sprintf("prod/web-%d", i), nil, &EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{{addr, unique.Make(""), e}}})
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
	c := NewIndex()
	on := func(node string, e advertise.Endpoint, addr string) Endpoint {
		return Endpoint{vip(addr), unique.Make(node), e}
	}
	readyOn := advertise.Endpoint{Ready: true, Serving: true}
	ending := advertise.Endpoint{Serving: true, Terminating: true}
	c.ServiceChanged("", nil, &Service{Key: key("web"), UID: "1", Ours: true, LocalTraffic: true, Home: "w2"})
	c.ClaimChanged("", nil, &Claim{VIP: vip("192.168.1.200"), Holders: []lb.ServiceKey{key("web")}, UID: "1", Homes: "w2,w1"})
	c.ClaimChanged("", nil, &Claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	c.SliceChanged("web-4", nil, &EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{on("w2", readyOn, "10.0.0.2"), on("w1", readyOn, "10.0.0.1"), on("w3", ending, "10.0.0.3")}})
	linkOf := func() (on, off advertise.OnLink) {
		for o := range c.All().All() {
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
	c.FollowLinks([]netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")})
	if on, off := linkOf(); on != (advertise.OnLink{Homes: "w2,w1", Home: "w2", At: "w1,w2"}) || off != (advertise.OnLink{}) {
		t.Errorf("on a link: %+v, over BGP: %+v", on, off)
	}
	c.SliceChanged("web-4", &EndpointSlice{Service: key("web"), IPv4: true}, &EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{on("w3", ending, "10.0.0.3")}})
	if on, _ := linkOf(); on.At != "w3" {
		t.Errorf("with an endpoint that ends alone it is at %q", on.At)
	}
}
