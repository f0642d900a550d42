package advertise

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// spread is a Service in the datacenter: its endpoints, by the machine that they are on.
type spread struct {
	local bool
	vip   netip.Addr
	on    map[string][]Endpoint
}

var (
	machines = []string{"w1", "w2", "w3"}
	states   = []inventory.State{
		inventory.StatePlanned, inventory.StateActive, inventory.StateMaintenance, inventory.StateOff, inventory.StateRetired,
	}
)

func drawSpread(t *rapid.T) spread {
	w := spread{
		local: rapid.Bool().Draw(t, "local traffic"),
		vip:   netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.10", "198.51.100.3", "192.0.2.225", "192.0.2.241", "2001:db8:113::10"}).Draw(t, "vip")),
		on:    map[string][]Endpoint{},
	}
	for _, m := range machines {
		w.on[m] = rapid.SliceOfN(rapid.Custom(drawEndpoint), 0, 3).Draw(t, m)
	}
	return w
}

func drawEndpoint(t *rapid.T) Endpoint {
	return rapid.SampledFrom([]Endpoint{
		{Ready: true, Serving: true}, {}, {Serving: true, Terminating: true}, {Terminating: true},
	}).Draw(t, "endpoint")
}

// paths are the prefixes that each machine tells its routers.
func (w spread) paths(t testing.TB, inv *inventory.Inventory) map[string][]netip.Prefix {
	all := map[string][]netip.Prefix{}
	for _, m := range machines {
		v := view(t, inv, m)
		v.Offers = sorted.Of(w.offer(m))
		for _, s := range PlanOf(v).Sessions {
			for a := range s.Advertisements.All() {
				all[m] = append(all[m], a.Prefix)
			}
		}
	}
	return all
}

func (w spread) offer(machine string) Offer {
	var es []Endpoint
	for _, m := range machines {
		for _, e := range w.on[m] {
			e.Local = m == machine
			es = append(es, e)
		}
	}
	return Offer{Service: lb.ServiceKey{Namespace: "prod", Name: "web"}, VIP: w.vip, LocalTraffic: w.local, Endpoints: Count(es)}
}

func TestSomebodyAnnouncesIfAndOnlyIfSomebodyCanServe(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawSpread(rt)
		can := false
		for m, es := range w.on {
			serves := slices.ContainsFunc(es, func(e Endpoint) bool { return e.Ready || e.Serving && e.Terminating })
			can = can || serves && (!w.local || w.vip.Is4() || m != "w2") // which has no IPv6
		}
		if does := len(w.paths(t, inv)) > 0; does != can {
			rt.Fatalf("announced: %v, can be served: %v", does, can)
		}
	})
}

func TestAnEndpointThatIsNotReadyNeverAddsAPath(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawSpread(rt)
		before := w.paths(t, inv)
		m := rapid.SampledFrom(machines).Draw(rt, "machine")
		w.on[m] = append(w.on[m], rapid.SampledFrom([]Endpoint{{}, {Terminating: true}}).Draw(rt, "endpoint"))
		for m, ps := range w.paths(t, inv) {
			if !slices.Equal(ps, before[m]) {
				rt.Fatalf("%s: %v became %v", m, before[m], ps)
			}
		}
	})
}

func TestWithLocalTrafficOnlyMachinesThatCanServeAnnounce(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawSpread(rt)
		w.local = true
		for m := range w.paths(t, inv) {
			if !slices.ContainsFunc(w.on[m], func(e Endpoint) bool { return e.Ready || e.Serving && e.Terminating }) {
				rt.Fatalf("%s announces and has %v", m, w.on[m])
			}
		}
	})
}

// TestAMachineIsTheWorseWayIfAndOnlyIfItsEndpointsEndAndOthersAreReady: with local traffic
// alone, and never so that nobody is left.
func TestAMachineIsTheWorseWayIfAndOnlyIfItsEndpointsEndAndOthersAreReady(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawSpread(rt)
		ready := func(m string) bool { return slices.ContainsFunc(w.on[m], func(e Endpoint) bool { return e.Ready }) }
		anyReady := slices.ContainsFunc(machines, ready)
		for _, m := range machines {
			v := view(t, inv, m)
			v.Offers = sorted.Of(w.offer(m))
			p := PlanOf(v)
			want := w.local && !ready(m) && anyReady
			told := 0
			for _, s := range p.Sessions {
				for a := range s.Advertisements.All() {
					told++
					if is := a.Communities.Has(inventory.GracefulShutdown); is != want {
						rt.Fatalf("%s has %v of %v: worse %v, want %v", m, w.on[m], w.on, is, want)
					}
				}
			}
			if said := p.Demotions.Len() > 0; said != (want && told > 0) {
				rt.Fatalf("%s announces %d prefixes as the worse way %v, and says it %v", m, told, want, said)
			}
		}
	})
}

// TestTheLongestPrefixOfAVIPWithLocalTrafficLeadsOnlyWhereItIsServed looks from each
// router: VIPs of one aggregate have their endpoints on different machines.
func TestTheLongestPrefixOfAVIPWithLocalTrafficLeadsOnlyWhereItIsServed(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		var services []spread
		for _, vip := range []string{"198.51.100.3", "198.51.100.4", "198.51.100.70", "203.0.113.10"} {
			w := drawSpread(rt)
			w.vip = netip.MustParseAddr(vip)
			services = append(services, w)
		}
		hears := map[string]map[netip.Prefix][]string{} // by router and prefix: from whom
		serves := map[string]map[netip.Addr][]string{}  // by router and VIP: who could
		for _, r := range inv.Routers {
			hears[r.Name], serves[r.Name] = map[netip.Prefix][]string{}, map[netip.Addr][]string{}
		}
		for _, m := range machines {
			v := view(t, inv, m)
			var offers []Offer
			for _, w := range services {
				o := w.offer(m)
				o.Service.Name = w.vip.String()
				offers = append(offers, o)
			}
			v.Offers = sorted.Of(offers...)
			for _, s := range PlanOf(v).Sessions {
				router := s.Session.Router
				for a := range s.Advertisements.All() {
					hears[router][a.Prefix] = append(hears[router][a.Prefix], m)
				}
				for _, o := range offers {
					if refusalOf(&o) == "" && s.Session.Families.IPv4 {
						serves[router][o.VIP] = append(serves[router][o.VIP], m)
					}
				}
			}
		}
		for router, from := range hears {
			for _, w := range services {
				want := serves[router][w.vip]
				if leads := to(from, w.vip); w.local && len(want) > 0 && !slices.Equal(leads, want) {
					rt.Fatalf("%s sends packets for %v to %v, and %v have endpoints of it: %v", router, w.vip, leads, want, from)
				}
			}
		}
	})
}

// to is where the longest prefix around an address leads.
func to(from map[netip.Prefix][]string, a netip.Addr) []string {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p, _ := a.Prefix(bits)
		if who := from[p]; len(who) > 0 {
			return who
		}
	}
	return nil
}

func TestEveryVIPIsAnnouncedOrRefusedAndNothingElseIs(t *testing.T) {
	inv := load(t, datacenter)
	addr := rapid.Custom(func(t *rapid.T) netip.Addr {
		b := rapid.SampledFrom([]string{"203.0.113.0", "198.51.100.0", "192.0.2.0", "10.10.1.0", "2001:db8:113::"}).Draw(t, "near")
		a := netip.MustParseAddr(b)
		for range rapid.IntRange(0, 255).Draw(t, "host") {
			a = a.Next()
		}
		return a
	})
	rapid.Check(t, func(rt *rapid.T) {
		v := view(t, inv, rapid.SampledFrom(machines).Draw(rt, "machine"))
		v.Excluded = rapid.Bool().Draw(rt, "excluded")
		v.Draining = rapid.Bool().Draw(rt, "draining")
		v.Withdrawn = rapid.Bool().Draw(rt, "withdrawn")
		v.Machine.State = rapid.SampledFrom(states).Draw(rt, "state")
		vips, endpoints := rapid.SliceOfN(addr, 0, 5).Draw(rt, "vips"), Endpoints{Any: rapid.IntRange(0, 1).Draw(rt, "endpoints")}
		var offers []Offer
		for _, vip := range vips {
			offers = append(offers, Offer{Service: lb.ServiceKey{Namespace: "prod", Name: "web"}, VIP: vip, Endpoints: endpoints})
		}
		v.Offers = sorted.Of(offers...)
		p := PlanOf(v)
		told := 0
		for _, s := range p.Sessions {
			told += s.Advertisements.Len()
			for a := range s.Advertisements.All() {
				lawful(rt, inv, v, s.Session, a)
			}
		}
		for _, vip := range vips {
			announced := slices.ContainsFunc(p.Sessions, func(s SessionPlan) bool {
				return slices.ContainsFunc(slices.Collect(s.Advertisements.All()), func(a Advertisement) bool { return a.Prefix.Contains(vip) })
			})
			refused := slices.ContainsFunc(slices.Collect(p.Refusals.All()), func(r Refusal) bool { return r.VIP == vip })
			if announced == refused {
				rt.Fatalf("%v: announced %v, refused %v", vip, announced, refused)
			}
		}
		announces := v.Machine.State == inventory.StateActive || v.Machine.State == inventory.StateMaintenance && v.Draining
		if (v.Withdrawn || v.Excluded || !announces) && told > 0 {
			rt.Fatalf("%d routes from a machine that is out", told)
		}
	})
}

// heard says of some VIPs of the datacenter, worked out by hand, as what they are
// announced and which machines have a session for that, or that none has.
var heard = []struct {
	vip, prefix string
	by          []string
}{
	{"203.0.113.10", "203.0.113.10/32", machines},
	{"2001:db8:113::10", "2001:db8:113::10/128", []string{"w1", "w3"}}, // w2 has no IPv6
	{"198.51.100.3", "198.51.100.0/26", machines},
	{"198.51.100.4", "198.51.100.0/26", machines},
	{"198.51.100.70", "198.51.100.64/26", machines},
	{"198.51.100.133", "198.51.100.133/32", machines},
	{"192.0.2.10", "", nil}, // the pool is disabled
	{"192.0.2.65", "192.0.2.65/32", []string{"w3"}},
	{"192.0.2.129", "192.0.2.129/32", []string{"w3"}},
	{"192.0.2.193", "192.0.2.193/32", []string{"w3"}},
	{"192.0.2.225", "192.0.2.225/32", machines},
	{"192.0.2.241", "192.0.2.241/32", machines}, // the pool drains
	{"10.10.1.11", "", nil},                     // no pool has it
}

// drawView draws a machine, the state that it is in, and whether it speaks at all.
func drawView(rt *rapid.T, t testing.TB, inv *inventory.Inventory) (v View, speaks bool) {
	v = view(t, inv, rapid.SampledFrom(machines).Draw(rt, "machine"))
	rarely := func(what string) bool { return rapid.IntRange(0, 7).Draw(rt, what) == 7 }
	v.Excluded, v.ProxyHealthy, v.Withdrawn, v.Draining = rarely("excluded"), !rarely("proxy broken"), rarely("withdrawn"), rarely("draining")
	v.Machine.State = rapid.SampledFrom([]inventory.State{inventory.StateActive, inventory.StateActive, inventory.StateActive,
		inventory.StateMaintenance, inventory.StatePlanned, inventory.StateOff, inventory.StateRetired}).Draw(rt, "state")
	speaks = v.Machine.State == inventory.StateActive || v.Machine.State == inventory.StateMaintenance && v.Draining
	return v, speaks && v.ProxyHealthy && !v.Excluded && !v.Withdrawn
}

func TestAMachineAnnouncesWhatAnyServiceOfAVIPCanServeThereAndRefusesTheOthers(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		v, speaks := drawView(rt, t, inv)
		want := map[netip.Prefix]bool{}
		refused := map[Refusal]bool{} // by Service and VIP alone
		var offers []Offer
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			h := rapid.SampledFrom(heard).Draw(rt, name)
			local := rapid.IntRange(0, 2).Draw(rt, "local endpoints")
			o := Offer{Service: lb.ServiceKey{Namespace: "prod", Name: name}, VIP: netip.MustParseAddr(h.vip), LocalTraffic: rapid.Bool().Draw(rt, "local traffic"),
				Endpoints: Endpoints{Local: local, Any: local + rapid.IntRange(0, 1).Draw(rt, "elsewhere")}}
			offers = append(offers, o)
			serves := o.Endpoints.Any > 0 && (!o.LocalTraffic || local > 0)
			if speaks && serves && slices.Contains(h.by, v.Machine.Name) {
				want[netip.MustParsePrefix(h.prefix)] = true
				if o.LocalTraffic {
					want[netip.PrefixFrom(o.VIP, o.VIP.BitLen())] = true
				}
			} else {
				refused[Refusal{Service: o.Service, VIP: o.VIP}] = true
			}
		}
		v.Offers = sorted.Of(offers...)
		p := PlanOf(v)
		for _, s := range p.Sessions {
			for a := range s.Advertisements.All() {
				lawful(rt, inv, v, s.Session, a)
				if !want[a.Prefix] {
					rt.Fatalf("%v is announced", a.Prefix)
				}
			}
		}
		for prefix := range want {
			if !slices.ContainsFunc(p.Sessions, func(s SessionPlan) bool {
				return slices.ContainsFunc(slices.Collect(s.Advertisements.All()), func(a Advertisement) bool { return a.Prefix == prefix })
			}) {
				rt.Fatalf("%v is not announced", prefix)
			}
		}
		for r := range p.Refusals.All() {
			if !refused[Refusal{Service: r.Service, VIP: r.VIP}] {
				rt.Fatalf("%v at %v is announced, and refused for %s", r.Service, r.VIP, r.Reason)
			}
			refused[Refusal{Service: r.Service, VIP: r.VIP}] = false
		}
		for r, untold := range refused {
			if untold {
				rt.Fatalf("%v at %v is neither announced nor refused", r.Service, r.VIP)
			}
		}
	})
}

// lawful checks one advertisement by itself.
func lawful(t *rapid.T, inv *inventory.Inventory, v View, s inventory.Session, a Advertisement) {
	around := inventory.RangeOf(a.Prefix)
	inside := slices.ContainsFunc(inv.Pools, func(p inventory.Pool) bool {
		return slices.ContainsFunc(p.Ranges, func(r inventory.Range) bool { return r.Contains(around.First) && r.Contains(around.Last) })
	})
	switch {
	case !inside:
		t.Fatalf("%v lies outside every pool", a.Prefix)
	case !s.Families.Has(a.Prefix):
		t.Fatalf("%v over a session that does not carry its family", a.Prefix)
	case v.Draining != a.Communities.Has(inventory.GracefulShutdown):
		t.Fatalf("draining %v, communities %v", v.Draining, a.Communities)
	case s.IBGP() && a.Prepend > 0, !s.IBGP() && a.LocalPref > 0:
		t.Fatalf("prepend %d, local preference %d, own AS %v", a.Prepend, a.LocalPref, s.IBGP())
	}
}

func TestPrefixesAreOrderedAsNetipOrdersThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) netip.Prefix {
			if rapid.Bool().Draw(t, name+" is IPv4") {
				a := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.ByteRange(0, 2), 4, 4).Draw(t, name)))
				return netip.PrefixFrom(a, rapid.IntRange(30, 32).Draw(t, name+"'s length"))
			}
			a := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.ByteRange(0, 2), 16, 16).Draw(t, name)))
			return netip.PrefixFrom(a, rapid.IntRange(126, 128).Draw(t, name+"'s length"))
		}
		a, b := draw("a"), draw("b")
		if got, want := comparePrefixes(a, b), a.Compare(b); got != want {
			t.Fatalf("%v and %v: %d, and netip says %d", a, b, got, want)
		}
	})
}
