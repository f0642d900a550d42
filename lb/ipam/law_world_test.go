package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// world is a Ledger with all that its laws speak of, most of it kept beside the Ledger.
type world struct {
	ledger   *Ledger
	inv      *inventory.Inventory
	taken    []lb.Taken                     // by the cluster
	requests map[lb.ServiceKey]Request      // what was last granted
	said     map[lb.ServiceKey]Request      // what was last asked for, granted or not
	given    map[lb.ServiceKey][]netip.Addr // by the decisions alone; sorted
	since    map[netip.Addr]time.Time
	foreign  map[netip.Addr]bool // held by another program
	teams    map[string]string   // label team of each namespace
	now      time.Time
}

// mayShare is the rule for two Services of one VIP, as the reference tells it.
func mayShare(a, b Holder) bool {
	ports := map[string]int{}
	for _, h := range []Holder{a, b} {
		for _, p := range h.Ports {
			ports[fmt.Sprint(p.Number, "/", p.Protocol)]++
		}
	}
	for _, services := range ports {
		if services > 1 {
			return false
		}
	}
	return a.Sharing != "" && fmt.Sprint(a.Service.Namespace, " ", a.Sharing, " ", a.Backends) == fmt.Sprint(b.Service.Namespace, " ", b.Sharing, " ", b.Backends)
}

// fits reports whether a Service may have a beside those that have it: with what they
// were granted, and with what they say now.
func (w *world) fits(h Holder, a netip.Addr) bool {
	for k, addrs := range w.given {
		if k != h.Service && slices.Contains(addrs, a) && !(mayShare(h, w.requests[k].Holder) && mayShare(h, w.said[k].Holder)) {
			return false
		}
	}
	return !w.foreign[a]
}

// drawInventory draws up to three small pools of either family.
func drawInventory(t *rapid.T) *inventory.Inventory {
	inv := &inventory.Inventory{}
	for i := range rapid.IntRange(0, 3).Draw(t, "pools") {
		p := inventory.Pool{Name: string(rune('a' + i)), State: inventory.PoolActive}
		p.Priority = rapid.IntRange(0, 1).Draw(t, "priority")
		p.AutoAssign = rapid.IntRange(0, 4).Draw(t, "autoAssign") > 0
		p.SkipFirstLast = rapid.Bool().Draw(t, "skipFirstLast")
		if rapid.IntRange(0, 4).Draw(t, "restricted") == 0 {
			p.Namespaces = []string{"one"}
		}
		if rapid.IntRange(0, 4).Draw(t, "of a team") == 0 {
			p.NamespaceSelectors = []inventory.Selector{{MatchLabels: map[string]string{"team": "x"}}}
		}
		for _, tier := range rapid.SampledFrom([][]string{nil, nil, nil, {"web"}, {"web", "mail"}}).Draw(t, "selective") {
			p.Selectors = append(p.Selectors, inventory.Selector{MatchLabels: map[string]string{"tier": tier}})
		}
		if rapid.IntRange(0, 4).Draw(t, "out") == 0 {
			p.State = rapid.SampledFrom([]inventory.PoolState{inventory.PoolDraining, inventory.PoolDisabled}).Draw(t, "state")
		}
		for _, s := range []string{fmt.Sprintf("10.0.%d.0/29", i), fmt.Sprintf("2001:db8:%d::/126", i)} {
			if rapid.IntRange(0, 3).Draw(t, s) > 0 {
				p.Ranges = append(p.Ranges, inventory.RangeOf(netip.MustParsePrefix(s)))
				p.Ranges[len(p.Ranges)-1].Prefix = rapid.IntRange(0, 3).Draw(t, "as a prefix") > 0
			}
		}
		if len(p.Ranges) > 0 {
			a := rapid.SampledFrom(p.Ranges).Draw(t, "of").First.Next().Next()
			if rapid.Bool().Draw(t, "exclude") {
				p.Exclude = []inventory.Range{{First: a, Last: a.Next()}}
			} else if rapid.Bool().Draw(t, "reserve") {
				p.Reserved = []inventory.Reservation{{Addr: a, Namespace: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "for"), Name: "s1"}}
			}
		}
		inv.Pools = append(inv.Pools, p)
	}
	return inv
}

// drawTaken draws blocks of Nodes and externalIPs of Services, some of which are in pools.
func drawTaken(t *rapid.T) (all []lb.Taken) {
	for range rapid.IntRange(0, 3).Draw(t, "taken") {
		a := drawAddr(t, rapid.SampledFrom([]lb.Family{lb.IPv4, lb.IPv6}).Draw(t, "family"))
		if rapid.Bool().Draw(t, "of a Node") {
			block, _ := a.Prefix(a.BitLen() - rapid.IntRange(0, 2).Draw(t, "bits"))
			all = append(all, lb.Taken{Prefix: block, Who: "the pods of node w1"})
		} else {
			k := lb.ServiceKey{Namespace: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace"), Name: fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(t, "name"))}
			all = append(all, lb.Taken{Prefix: netip.PrefixFrom(a, a.BitLen()), Who: "the externalIPs of service " + k.String(), Service: k})
		}
	}
	return all
}

// hasTaken reports whether the cluster has an address. The externalIPs of others count where the Service itself has it neither
// there nor reserved.
func (w *world) hasTaken(a netip.Addr, k, reserver lb.ServiceKey) bool {
	others, own := false, false
	for _, t := range w.taken {
		switch {
		case !t.Prefix.Contains(a):
		case t.Service == (lb.ServiceKey{}):
			return true
		case t.Service == k:
			own = true
		default:
			others = true
		}
	}
	return others && !own && reserver != k
}

func drawRequest(t *rapid.T) Request {
	r := service(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")+"/"+fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(t, "name")),
		rapid.SampledFrom([]string{"4", "6", "46", "64", "46?", "64?"}).Draw(t, "families"))
	r.Ports = nil
	first := rapid.IntRange(1, 4).Draw(t, "port")
	for n := range rapid.IntRange(1, 2).Draw(t, "ports") {
		r.Ports = append(r.Ports, Port{"TCP", uint16(first + n)})
	}
	if tier := rapid.SampledFrom([]string{"", "web", "web", "mail"}).Draw(t, "tier"); tier != "" {
		r.Labels = map[string]string{"tier": tier}
	}
	r.Sharing = rapid.SampledFrom([]string{"", "key", "key", "key", "other"}).Draw(t, "sharing")
	r.Backends = rapid.SampledFrom([]string{"", "", "", "app=x", "app=y"}).Draw(t, "backends")
	switch rapid.IntRange(0, 6).Draw(t, "asks") {
	case 0:
		r.Pool = "a"
	case 1:
		r.Ask = ips(drawAddr(t, r.Want.First).String())
	case 2:
		if r.Want.dual() {
			r.Ask = ips(drawAddr(t, r.Want.First).String() + "," + drawAddr(t, r.Want.Second).String())
		}
	case 3:
		r.Ask = drawSeveral(t, r.Want)
	}
	return r
}

// drawSeveral asks for up to three addresses of the first family, and perhaps of the second.
func drawSeveral(t *rapid.T, want Want) (ask Ask) {
	for range rapid.IntRange(2, 3).Draw(t, "several") {
		f := want.First
		if want.dual() && rapid.IntRange(0, 3).Draw(t, "of the second") == 0 {
			f = want.Second
		}
		if a := drawAddr(t, f); !slices.Contains(ask.Addrs, a) {
			ask.Addrs = append(ask.Addrs, a)
		}
	}
	return ask
}

// drawAddr draws an address of a pool, or near one.
func drawAddr(t *rapid.T, f lb.Family) netip.Addr {
	format := "10.0.%d.%d"
	if f == lb.IPv6 {
		format = "2001:db8:%d::%d"
	}
	return netip.MustParseAddr(fmt.Sprintf(format, rapid.IntRange(0, 3).Draw(t, "net"), rapid.IntRange(0, 7).Draw(t, "host")))
}

// answer is a Decision with all that the laws compare it with.
type answer struct {
	Request
	Decision
	held []netip.Addr // before
	free [2]bool      // by the oracle, by family
}

// live has a world live through random events. Every answer is shown to answers before
// it is entered, and the world to always after each event; either may be nil.
func live(t *testing.T, answers func(*world, *rapid.T, answer), always func(*world, *rapid.T)) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{ledger: NewLedger(), inv: drawInventory(t), requests: map[lb.ServiceKey]Request{}, said: map[lb.ServiceKey]Request{},
			given: map[lb.ServiceKey][]netip.Addr{}, since: map[netip.Addr]time.Time{}, foreign: map[netip.Addr]bool{}, teams: map[string]string{}, now: noon}
		w.ledger.SetPools(w.inv)
		request := func(t *rapid.T) { w.request(t, drawRequest(t), answers) }
		join := func(t *rapid.T) { w.request(t, w.drawJoin(t), answers) }
		t.Repeat(map[string]func(*rapid.T){
			"a Service comes or changes":                 request,
			"another comes":                              request,
			"one asks for a VIP of another":              join,
			"another asks for one":                       join,
			"a Service goes":                             w.remove,
			"another program takes or leaves an address": w.meddle,
			"the inventory changes": func(t *rapid.T) {
				w.inv = drawInventory(t)
				w.ledger.SetPools(w.inv, w.taken...)
			},
			"Nodes and externalIPs come and go": func(t *rapid.T) {
				w.taken = drawTaken(t)
				w.ledger.SetPools(w.inv, w.taken...)
			},
			"a Namespace is labelled": func(t *rapid.T) {
				name, team := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "team")
				w.teams[name] = team
				w.ledger.SetNamespace(name, map[string]string{"team": team, "other": "z"})
			},
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "minutes")) * time.Minute)
			},
			"": func(t *rapid.T) {
				if always != nil {
					always(w, t)
				}
			},
		})
	})
}

// drawJoin draws a Service that asks for a VIP of another, much as that one did.
func (w *world) drawJoin(t *rapid.T) Request {
	r := drawRequest(t)
	claims := w.ledger.Holdings()
	if len(claims) == 0 {
		return r
	}
	c := rapid.SampledFrom(claims).Draw(t, "claim")
	r.Want = Want{First: lb.FamilyOf(c.Addr)}
	r.Ask = ips(c.Addr.String())
	if len(c.Holders) > 0 && rapid.Bool().Draw(t, "of its namespace") {
		r.Service.Namespace = c.Holders[0].Service.Namespace
		r.Sharing = rapid.SampledFrom([]string{c.Holders[0].Sharing, r.Sharing}).Draw(t, "key")
		r.Backends = rapid.SampledFrom([]string{c.Holders[0].Backends, r.Backends}).Draw(t, "its backends")
	}
	return r
}

func (w *world) request(t *rapid.T, r Request, answers func(*world, *rapid.T, answer)) {
	before := answer{Request: r, held: slices.Clone(w.ledger.Holds(r.Service)), free: w.oracle(r)}
	before.Decision = Allocate(w.ledger, r, w.now)
	if answers != nil {
		answers(w, t, before)
	}
	w.said[r.Service] = r
	if before.Refused {
		w.ledger.Says(r.Holder)
		return
	}
	w.requests[r.Service] = r
	w.given[r.Service] = nil
	for _, v := range before.VIPs {
		w.given[r.Service] = insertAddr(w.given[r.Service], v.Addr)
		if _, known := w.since[v.Addr]; !known {
			w.since[v.Addr] = w.now
		}
	}
	apply(w.ledger, r, w.now)
	for a := range w.since {
		w.ledger.HeldSince(a, w.since[a])
	}
	w.forgetSince()
}

// forgetSince forgets since when an address is held that nobody holds.
func (w *world) forgetSince() {
	for a := range w.since {
		if _, held := w.ledger.Holding(a); !held {
			delete(w.since, a)
		}
	}
}

// meddle has another program take an address, or leave one that it took.
func (w *world) meddle(t *rapid.T) {
	a := drawAddr(t, rapid.SampledFrom([]lb.Family{lb.IPv4, lb.IPv6}).Draw(t, "family"))
	if w.foreign[a] {
		delete(w.foreign, a)
		w.ledger.Unblock(a)
		return
	}
	w.foreign[a] = true
	delete(w.since, a)
	for k := range w.given {
		w.given[k] = removeAddr(w.given[k], a)
	}
	w.ledger.Block(a)
}
