package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// happen has a cluster live through random events, shows it to always after each, and has it
// come to rest at the end. Somebody deletes claims in it now and then.
func happen(t *testing.T, always, atRest func(*cluster)) {
	happenIn(t, true, always, atRest)
}

// happenUndisturbed is happen where nobody deletes claims: the next leader knows of an address without its claim by a
// status alone, and does not take over from that what rests as another's.
func happenUndisturbed(t *testing.T, always func(*cluster)) {
	happenIn(t, false, always, func(*cluster) {})
}

func happenIn(t *testing.T, disturbed bool, always, atRest func(*cluster)) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, disturbed: disturbed, inv: smallPools(), now: noon, objects: map[netip.Addr]Object{}, services: map[lb.ServiceKey]*liveService{}}
		c.begin()
		t.Repeat(map[string]func(*rapid.T){
			"a Service comes":                     c.comes,
			"another comes":                       c.comes,
			"a Service goes":                      c.goes,
			"one is kept by somebody's finalizer": c.lingers,
			"a worker looks at one":               c.works,
			"another looks at another":            c.works,
			"a third looks at a third":            c.works,
			"the watch tells":                     func(*rapid.T) { c.lives(c.tell) },
			"the watch lists anew":                func(*rapid.T) { c.lives(c.relist) },
			"what was released is written down":   func(*rapid.T) { c.lives(c.writeReleased) },
			"time passes": func(t *rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "minutes")) * time.Minute)
			},
			"": func(*rapid.T) { always(c) },
		})
		c.settles()
		always(c)
		atRest(c)
	})
}

// smallPools are a few addresses of each family, fewer than the Services want.
func smallPools() *inventory.Inventory {
	p := inventory.Pool{Name: "a", State: inventory.PoolActive, AutoAssign: true}
	for _, s := range []string{"10.0.0.0/30", "2001:db8::/127"} {
		p.Ranges = append(p.Ranges, inventory.RangeOf(netip.MustParsePrefix(s)))
	}
	return &inventory.Inventory{Pools: []inventory.Pool{p}}
}

func (c *cluster) comes(t *rapid.T) {
	r := service(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")+"/"+fmt.Sprintf("s%d", rapid.IntRange(0, 4).Draw(t, "name")),
		rapid.SampledFrom([]string{"4", "6", "46", "46?"}).Draw(t, "families"))
	r.Ports = []Port{{"TCP", uint16(rapid.IntRange(1, 3).Draw(t, "port"))}}
	r.Sharing = rapid.SampledFrom([]string{"", "key"}).Draw(t, "sharing")
	if rapid.IntRange(0, 3).Draw(t, "asks") == 0 {
		r.Ask = ips(fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 3).Draw(t, "for")))
		if a := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 3).Draw(t, "and for"))); !slices.Contains(r.Addrs, a) {
			r.Addrs = append(r.Addrs, a)
		}
		r.Want = Want{First: lb.IPv4}
	}
	if c.services[r.Service] != nil {
		return
	}
	c.changes++
	r.Created = c.now
	c.services[r.Service] = &liveService{Request: r, uid: fmt.Sprint("uid ", c.changes), made: c.changes}
	c.queue[r.Service] = true
}

func (c *cluster) draw(t *rapid.T) (lb.ServiceKey, bool) {
	if len(c.services) == 0 {
		return lb.ServiceKey{}, false
	}
	return rapid.SampledFrom(slices.SortedFunc(maps.Keys(c.services), lb.ServiceKey.Compare)).Draw(t, "of"), true
}

// goes has a Service go: one without finalizers at once, status and all.
func (c *cluster) goes(t *rapid.T) {
	if k, any := c.draw(t); any {
		delete(c.services, k)
		c.state.Withdraw(k)
		c.queue[k] = true
	}
}

func (c *cluster) lingers(t *rapid.T) {
	if k, any := c.draw(t); any {
		c.services[k].gone = true
		c.state.Withdraw(k)
		c.queue[k] = true
	}
}

// works has a worker look at a Service that is queued.
func (c *cluster) works(t *rapid.T) {
	if len(c.queue) > 0 {
		k := rapid.SampledFrom(slices.SortedFunc(maps.Keys(c.queue), lb.ServiceKey.Compare)).Draw(t, "looks at")
		c.lives(func() { c.reconcile(k) })
	}
}

// Who names an address that a Service of the same key was made anew at, with other ports and
// while nobody looked, keeps what its status shows, and is told of the port.
func TestNoTwoStatusesShowOneAddressUnlessTheyShareIt(t *testing.T) {
	happen(t, func(c *cluster) {
		shows := map[netip.Addr][]*liveService{}
		for _, svc := range c.services {
			for _, a := range svc.shown {
				for _, o := range shows[a] {
					if svc.Service.Namespace != o.Service.Namespace || svc.Sharing == "" || svc.Sharing != o.Sharing {
						c.t.Fatalf("%v is shown by %v and %v\n%v", a, svc.Service, o.Service, c)
					}
				}
				shows[a] = append(shows[a], svc)
			}
		}
	}, func(*cluster) {})
}

// What a status shows is what clients know a Service by, whoever leads and whatever is left of
// an earlier Service of its name.
func TestNoServiceMoves(t *testing.T) {
	happenUndisturbed(t, func(c *cluster) {
		for _, svc := range c.services {
			for _, a := range svc.shown {
				i := index(lb.FamilyOf(a))
				if len(svc.Addrs) > 0 { // it shows these, see below
					continue
				}
				if was := svc.first[i]; was.IsValid() && was != a {
					c.t.Fatalf("%v showed %v, and shows %v\n%v", svc.Service, was, a, c)
				}
				svc.first[i] = a
			}
		}
	})
}

// TestWhoAsksForAddressesShowsAllOfThemInThatOrderOrNone, as does who asks for several: also when
// the controller dies between two of them, and when somebody else is faster with one.
func TestWhoAsksForAddressesShowsAllOfThemInThatOrderOrNone(t *testing.T) {
	happen(t, func(c *cluster) {
		for _, svc := range c.services {
			if len(svc.Addrs) > 0 && len(svc.shown) > 0 && !slices.Equal(svc.shown, svc.Addrs) {
				c.t.Fatalf("%v asks for %v, and shows %v\n%v", svc.Service, svc.Addrs, svc.shown, c)
			}
		}
	}, func(*cluster) {})
}

func TestAtRestStatusObjectAndStateAgree(t *testing.T) {
	happen(t, func(*cluster) {}, func(c *cluster) {
		named := map[lb.ServiceKey][]netip.Addr{}
		for _, o := range c.objects {
			for _, k := range o.Holders {
				named[k] = insertAddr(named[k], o.Addr)
			}
		}
		for k, svc := range c.services {
			shown := slices.SortedFunc(slices.Values(svc.shown), netip.Addr.Compare)
			if held := c.state.Holds(k); !slices.Equal(held, shown) || !slices.Equal(named[k], shown) {
				c.t.Fatalf("%v shows %v, holds %v and is named by %v\n%v", k, shown, held, named[k], c)
			}
			delete(named, k)
		}
		if len(named) > 0 {
			c.t.Fatalf("who is gone is named yet: %v\n%v", named, c)
		}
	})
}

func TestAtRestWhoWaitsCouldNotBeServed(t *testing.T) {
	happen(t, func(*cluster) {}, func(c *cluster) {
		for k, svc := range c.services {
			if svc.gone {
				continue
			}
			var lacks []lb.Family
			for _, f := range []lb.Family{svc.Want.First, svc.Want.Second} {
				if f != lb.NoFamily && !slices.ContainsFunc(svc.shown, func(a netip.Addr) bool { return lb.FamilyOf(a) == f }) {
					lacks = append(lacks, f)
				}
			}
			could := len(lacks) > 0
			for _, f := range lacks {
				could = could && c.couldHave(svc, f)
			}
			if could && !(svc.Want.Optional && len(svc.shown) > 0) {
				c.t.Fatalf("%v lacks %v, which it could have\n%v", k, lacks, c)
			}
		}
	})
}

// couldHave looks at every single address.
func (c *cluster) couldHave(svc *liveService, f lb.Family) bool {
	could := 0
	for _, r := range c.inv.Pools[0].Ranges {
		for a := r.First; r.Contains(a); a = a.Next() {
			if lb.FamilyOf(a) != f || svc.Ask.asks(f) && !slices.Contains(svc.Addrs, a) {
				continue
			}
			free := true
			for _, o := range c.services {
				if o != svc && slices.Contains(o.shown, a) && !mayShare(svc.Holder, o.Holder) {
					free = false
				}
			}
			all, _ := c.state.Quarantined(c.now)
			for _, x := range all { // who asks for it must not lie in wait for it
				if svc.Ask.asks(f) && x.Addr == a && x.Owner.Namespace != svc.Service.Namespace {
					free = false
				}
			}
			if free {
				could++
			}
		}
	}
	return could > 0 && could >= len(svc.Addrs) // which are all of one family
}

func TestAtRestNothingIsLeftOfWhatIsGone(t *testing.T) {
	happen(t, func(*cluster) {}, func(c *cluster) {
		for k := range c.services {
			c.state.Withdraw(k)
			c.queue[k] = true
		}
		clear(c.services)
		c.settles()
		c.now = c.now.Add(time.Hour)
		c.settles()
		if len(c.objects) > 0 || len(c.state.Holdings()) > 0 || len(c.state.addresses) > 0 || len(c.state.services) > 0 || len(c.state.pendings) > 0 {
			c.t.Fatalf("%v\n%v %v %v %v", c, c.state.Holdings(), c.state.addresses, c.state.services, c.state.pendings)
		}
	})
}
