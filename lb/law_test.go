package lb

import (
	"fmt"
	"math/rand"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// world is a Ledger with all that its laws speak of, most of it kept beside the Ledger.
type world struct {
	ledger   *Ledger
	inv      *inventory.Inventory
	requests map[ServiceKey]Request      // what was last granted
	said     map[ServiceKey]Request      // what was last asked for, granted or not
	given    map[ServiceKey][]netip.Addr // by the decisions alone; sorted
	since    map[netip.Addr]time.Time
	foreign  map[netip.Addr]bool // held by another program
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
		if rapid.IntRange(0, 4).Draw(t, "selective") == 0 {
			p.Selector.MatchLabels = map[string]string{"tier": "web"}
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

func drawRequest(t *rapid.T) Request {
	r := service(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")+"/"+fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(t, "name")),
		rapid.SampledFrom([]string{"4", "6", "46", "64", "46?", "64?"}).Draw(t, "families"))
	r.Ports = nil
	first := rapid.IntRange(1, 4).Draw(t, "port")
	for n := range rapid.IntRange(1, 2).Draw(t, "ports") {
		r.Ports = append(r.Ports, Port{"TCP", uint16(first + n)})
	}
	if rapid.IntRange(0, 3).Draw(t, "labelled") > 0 {
		r.Labels = map[string]string{"tier": "web"}
	}
	r.Sharing = rapid.SampledFrom([]string{"", "key", "key", "key", "other"}).Draw(t, "sharing")
	r.Backends = rapid.SampledFrom([]string{"", "", "", "app=x", "app=y"}).Draw(t, "backends")
	switch rapid.IntRange(0, 5).Draw(t, "asks") {
	case 0:
		r.Pool = "a"
	case 1:
		r.Ask = ips(drawAddr(t, r.Want.First).String())
	case 2:
		if r.Want.dual() {
			r.Ask = ips(drawAddr(t, r.Want.First).String() + "," + drawAddr(t, r.Want.Second).String())
		}
	}
	return r
}

// drawAddr draws an address of a pool, or near one.
func drawAddr(t *rapid.T, f Family) netip.Addr {
	format := "10.0.%d.%d"
	if f == IPv6 {
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
		w := &world{ledger: NewLedger(), inv: drawInventory(t), requests: map[ServiceKey]Request{}, said: map[ServiceKey]Request{},
			given: map[ServiceKey][]netip.Addr{}, since: map[netip.Addr]time.Time{}, foreign: map[netip.Addr]bool{}, now: noon}
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
				w.ledger.SetPools(w.inv)
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
	claims := w.ledger.Claims()
	if len(claims) == 0 {
		return r
	}
	c := rapid.SampledFrom(claims).Draw(t, "claim")
	r.Want = Want{First: FamilyOf(c.Addr)}
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
		if _, held := w.ledger.Claim(a); !held {
			delete(w.since, a)
		}
	}
}

// meddle has another program take an address, or leave one that it took.
func (w *world) meddle(t *rapid.T) {
	a := drawAddr(t, rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family"))
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

func TestNoAddressIsHeldTwice(t *testing.T) { live(t, nil, (*world).noAddressIsHeldTwice) }

func TestNoAddressIsGivenFromOutsideItsPool(t *testing.T) {
	live(t, (*world).neverOutsideItsPool, nil)
}

func TestAddressThatIsHeldIsKeptWhateverBecomesOfThePools(t *testing.T) {
	live(t, nil, (*world).whatIsHeldIsKept)
}

func TestAnswerDoesNotDependOnTheOrderOfEvents(t *testing.T) {
	live(t, (*world).theAnswerDoesNotDependOnOrder, nil)
}

func TestPoolIsExhaustedIfAndOnlyIfNothingIsFree(t *testing.T) {
	live(t, (*world).exhaustedIffNothingIsFree, nil)
}

func TestEveryRefusalHasAReason(t *testing.T) {
	live(t, func(_ *world, t *rapid.T, a answer) {
		if a.Refused && (len(a.Denials) == 0 || a.Denials[0].Reason == "") {
			t.Fatalf("%+v is refused without a reason", a.Request)
		}
	}, nil)
}

// whatIsHeldIsKept asks for all Services what they asked for before.
func (w *world) whatIsHeldIsKept(t *rapid.T) {
	for k, r := range w.requests {
		held := w.ledger.Holds(k)
		d := Allocate(w.ledger, r, w.now)
		for _, a := range held {
			if !slices.ContainsFunc(d.VIPs, func(v Assignment) bool { return v.Addr == a && !v.New }) {
				t.Fatalf("%v held %v, and now is to have %s", k, held, brief(d))
			}
		}
		if len(d.Release) > 0 {
			t.Fatalf("%v is to give back %v", k, d.Release)
		}
	}
}

func (w *world) remove(t *rapid.T) {
	var keys []ServiceKey
	for k := range w.requests {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, compareServices)
	k := rapid.SampledFrom(keys).Draw(t, "service")
	for _, a := range slices.Clone(w.ledger.Holds(k)) {
		w.ledger.Release(a, k, w.now)
	}
	delete(w.requests, k)
	delete(w.said, k)
	delete(w.given, k)
	w.forgetSince()
	if n := len(w.ledger.Holds(k)); n > 0 {
		t.Fatalf("%v still holds %d addresses", k, n)
	}
}

func (w *world) noAddressIsHeldTwice(t *rapid.T) {
	for k, addrs := range w.given {
		if !slices.Equal(addrs, w.ledger.Holds(k)) {
			t.Fatalf("%v was given %v, and holds %v", k, addrs, w.ledger.Holds(k))
		}
		for _, a := range addrs {
			if h := w.requests[k].Holder; w.settled(k) && !w.fitsSettled(h, a) {
				t.Fatalf("%v is held by %+v and by others that do not fit", a, h)
			}
		}
	}
	for _, c := range w.ledger.Claims() {
		if w.foreign[c.Addr] != (len(c.Holders) == 0) {
			t.Fatalf("%v is held by %v; by another program: %v", c.Addr, c.Holders, w.foreign[c.Addr])
		}
		for _, h := range c.Holders {
			if !slices.Contains(w.given[h.Service], c.Addr) {
				t.Fatalf("%v holds %v, which it was not given", h.Service, c.Addr)
			}
		}
	}
}

// settled reports whether a Service says what it was granted.
func (w *world) settled(k ServiceKey) bool { return w.requests[k].Holder.equal(w.said[k].Holder) }

// fitsSettled is fits among those that say what they were granted.
func (w *world) fitsSettled(h Holder, a netip.Addr) bool {
	for k, addrs := range w.given {
		if k != h.Service && w.settled(k) && slices.Contains(addrs, a) && !mayShare(h, w.said[k].Holder) {
			return false
		}
	}
	return true
}

func (w *world) neverOutsideItsPool(t *rapid.T, a answer) {
	r, d := a.Request, a.Decision
	for _, v := range d.VIPs {
		if !v.New {
			continue
		}
		p, ok := w.inv.PoolOf(v.Addr)
		if !ok || p.Name != v.Pool || p.State != inventory.PoolActive {
			t.Fatalf("%v was given from %q, pool is %v %v", v.Addr, v.Pool, p.Name, p.State)
		}
		asked, asks := r.addr(FamilyOf(v.Addr))
		if asks && asked != v.Addr {
			t.Fatalf("%v asked for, %v given", asked, v.Addr)
		}
		if !w.fits(r.Holder, v.Addr) {
			t.Fatalf("%v was given to %+v, and does not fit with those that have it", v.Addr, r.Holder)
		}
		if isEnd(p, v.Addr) {
			t.Fatalf("%v was given, which skipFirstLast leaves out", v.Addr)
		}
		owner := reserver(p, v.Addr)
		if owner != (ServiceKey{}) && owner != r.Service && !slices.Contains(w.given[owner], v.Addr) {
			t.Fatalf("%v is reserved for %v, which does not have it, and was given to %v", v.Addr, owner, r.Service)
		}
		if owner == r.Service {
			continue
		}
		switch {
		case len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, r.Service.Namespace):
			t.Fatalf("%v was given to %v, whose namespace the pool is not for", v.Addr, r.Service)
		case p.Selector.MatchLabels != nil && r.Labels["tier"] != "web":
			t.Fatalf("%v was given to %v, which the pool does not select", v.Addr, r.Service)
		case !p.AutoAssign && !asks && r.Pool != p.Name:
			t.Fatalf("%v was given to %v, which asked for nothing of the pool", v.Addr, r.Service)
		}
	}
}

// isEnd reports whether a is the first or last address of a prefix of the pool that skips
// these. All prefixes here have more than two addresses.
func isEnd(p inventory.Pool, a netip.Addr) bool {
	return p.SkipFirstLast && slices.ContainsFunc(p.Ranges, func(r inventory.Range) bool { return r.Prefix && (a == r.First || a == r.Last) })
}

func reserver(p inventory.Pool, a netip.Addr) ServiceKey {
	for _, r := range p.Reserved {
		if r.Addr == a {
			return ServiceKey{r.Namespace, r.Name}
		}
	}
	return ServiceKey{}
}

// oracle says, by looking at every single address, for which families there is
// one that the Service could get, apart from those it holds.
func (w *world) oracle(r Request) (free [2]bool) {
	for _, p := range w.inv.Pools {
		for _, rg := range p.Ranges {
			for a := rg.First; rg.Contains(a); a = a.Next() {
				if w.couldGet(r, p, a) {
					free[FamilyOf(a).index()] = true
				}
			}
		}
	}
	return free
}

func (w *world) couldGet(r Request, p inventory.Pool, a netip.Addr) bool {
	asked, asks := r.addr(FamilyOf(a))
	owner := reserver(p, a)
	mine := owner == r.Service
	switch {
	case p.State != inventory.PoolActive, !p.Contains(a), isEnd(p, a), asks && asked != a, r.Pool != "" && r.Pool != p.Name:
		return false
	case !mine && len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, r.Service.Namespace):
		return false
	case !mine && p.Selector.MatchLabels != nil && r.Labels["tier"] != "web":
		return false
	case !mine && !asks && !p.AutoAssign && r.Pool == "":
		return false
	case !mine && owner != (ServiceKey{}) && !slices.Contains(w.given[owner], a):
		return false
	}
	for _, x := range w.ledger.Resting() {
		if asks && x.Addr == a && x.Until.After(w.now) && x.Owner.Namespace != r.Service.Namespace && !mine {
			return false
		}
	}
	return w.fits(r.Holder, a)
}

func (w *world) exhaustedIffNothingIsFree(t *rapid.T, a answer) {
	r, d, free, held := a.Request, a.Decision, a.free, a.held
	if len(held) > 0 {
		return // what is kept has its own tables
	}
	first, second := free[r.Want.First.index()], r.Want.dual() && free[r.Want.Second.index()]
	want := first && (second || !r.Want.dual())
	if _, asks := r.addr(r.Want.Second); r.Want.Optional && asks {
		want = first && second // it asks for both, so it does not do with one
	} else if _, asks := r.addr(r.Want.First); r.Want.Optional && asks {
		want = first
	} else if r.Want.Optional {
		want = first || second
	}
	if want == d.Refused {
		t.Fatalf("%+v: free %v, but %s", r, free, brief(d))
	}
}

// theAnswerDoesNotDependOnOrder asks a Ledger that learnt the same in another order.
func (w *world) theAnswerDoesNotDependOnOrder(t *rapid.T, was answer) {
	r := was.Request
	shuffle := rand.New(rand.NewSource(rapid.Int64().Draw(t, "order")))
	inv := *w.inv
	inv.Pools = slices.Clone(inv.Pools)
	shuffle.Shuffle(len(inv.Pools), func(i, j int) { inv.Pools[i], inv.Pools[j] = inv.Pools[j], inv.Pools[i] })
	other := NewLedger()
	claims, resting := w.ledger.Claims(), w.ledger.Resting()
	shuffle.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	if shuffle.Intn(2) == 0 {
		other.SetPools(&inv)
	}
	for _, c := range claims {
		if w.foreign[c.Addr] {
			other.Block(c.Addr)
		}
		for _, h := range c.Holders {
			other.Hold(c.Addr, c.Pool, h)
		}
		other.HeldSince(c.Addr, w.since[c.Addr])
	}
	for _, said := range w.said {
		other.Says(said.Holder)
	}
	for _, x := range resting {
		other.Rest(x)
	}
	other.SetPools(&inv)
	a, b := Allocate(w.ledger, r, w.now), Allocate(other, r, w.now)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v: %s, but in another order %s", r, brief(a), brief(b))
	}
}

// poolOfSize is a Ledger with one pool of so many bits of host addresses in both families.
func poolOfSize(t testing.TB, bits int) *Ledger {
	inv := pools(t, "    []")
	p := inventory.Pool{Name: "a", State: inventory.PoolActive, AutoAssign: true}
	for _, base := range []string{"10.0.0.0", "2001:db8::"} {
		a := netip.MustParseAddr(base)
		p.Ranges = append(p.Ranges, inventory.RangeOf(netip.PrefixFrom(a, max(8, a.BitLen()-bits)).Masked()))
	}
	inv.Pools = []inventory.Pool{p}
	l := NewLedger()
	l.SetPools(inv)
	return l
}

func TestWorkAndMemoryOfAnAllocationFollowWhatIsHeldAndNotThePoolsSize(t *testing.T) {
	const held = 1000
	want := -1.0
	for _, bits := range []int{11, 16, 24, 64, 96} { // IPv4 up to a /8, IPv6 up to a /32
		l := poolOfSize(t, bits)
		for i := range held {
			apply(l, service(fmt.Sprintf("d/s%d", i), "46"), noon)
			if i%2 == 1 {
				for _, a := range slices.Clone(l.Holds(ServiceKey{"d", fmt.Sprintf("s%d", i)})) {
					l.Forget(a, ServiceKey{"d", fmt.Sprintf("s%d", i)})
				}
			}
		}
		for f, free := range l.pools[0].free {
			runs := 0
			for _, leaf := range free.leaves {
				runs += len(leaf)
			}
			if runs > held+1 {
				t.Errorf("%d bits: %d runs of family %d for %d addresses held", bits, runs, f, held)
			}
		}
		r := service("d/new", "46")
		got := testing.AllocsPerRun(100, func() { Allocate(l, r, noon) })
		if want < 0 {
			want = got
		}
		if got != want || got > 2 {
			t.Errorf("%d bits: %v allocations of memory, with 11 bits %v", bits, got, want)
		}
	}
}

func TestServiceSharesTheLowestAddressThatItMayShare(t *testing.T) {
	live(t, func(w *world, t *rapid.T, a answer) {
		if len(a.held) > 0 || a.Service.Name == "s1" {
			return // it does not look for one to share, or has a reservation
		}
		s := search{l: w.ledger, r: a.Request}
		for _, f := range []Family{IPv4, IPv6} {
			s.share(f)
			want := netip.Addr{}
			for _, c := range w.ledger.Claims() { // sorted
				if FamilyOf(c.Addr) == f && !want.IsValid() && w.mayJoin(a.Request, c) {
					want = c.Addr
				}
			}
			if got := s.got[f.index()].Addr; got != want {
				t.Fatalf("%+v may share %v, and is led to %v", a.Request, want, got)
			}
		}
	}, nil)
}

// mayJoin is share for one address, by the rules as the reference tells them.
func (w *world) mayJoin(r Request, c Claim) bool {
	p, _ := w.inv.PoolOf(c.Addr)
	r.Addrs = nil
	return r.Sharing != "" && len(c.Holders) > 0 && w.couldGet(r, p, c.Addr)
}
