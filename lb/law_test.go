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

// world is a Ledger with all that its laws speak of.
type world struct {
	ledger   *Ledger
	inv      *inventory.Inventory
	requests map[ServiceKey]Request // of those that got an answer
	now      time.Time
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
		if rapid.IntRange(0, 4).Draw(t, "draining") == 0 {
			p.State = inventory.PoolDraining
		}
		for _, s := range []string{fmt.Sprintf("10.0.%d.0/29", i), fmt.Sprintf("2001:db8:%d::/126", i)} {
			if rapid.IntRange(0, 3).Draw(t, s) > 0 {
				p.Ranges = append(p.Ranges, inventory.RangeOf(netip.MustParsePrefix(s)))
			}
		}
		if len(p.Ranges) > 0 {
			a := p.Ranges[0].First.Next().Next()
			if rapid.Bool().Draw(t, "exclude") {
				p.Exclude = []inventory.Range{{First: a, Last: a.Next()}}
			} else if rapid.Bool().Draw(t, "reserve") {
				p.Reserved = []inventory.Reservation{{Addr: a, Namespace: "one", Name: "s1"}}
			}
		}
		inv.Pools = append(inv.Pools, p)
	}
	return inv
}

func drawRequest(t *rapid.T) Request {
	r := service(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")+"/"+fmt.Sprintf("s%d", rapid.IntRange(0, 9).Draw(t, "name")),
		rapid.SampledFrom([]string{"4", "6", "46", "64", "46?", "64?"}).Draw(t, "families"))
	r.Ports = []Port{{"TCP", uint16(rapid.IntRange(1, 3).Draw(t, "port"))}}
	switch rapid.IntRange(0, 5).Draw(t, "asks") {
	case 0:
		r.Sharing = "key"
	case 1:
		r.Pool = "a"
	case 2:
		f, low := "10.0.%d.%d", 0
		if r.Want.First == IPv6 {
			f = "2001:db8:%d::%d"
		}
		r.Ask = ips(fmt.Sprintf(f, rapid.IntRange(0, 3).Draw(t, "net"), low+rapid.IntRange(0, 7).Draw(t, "host")))
	}
	return r
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
		w := &world{ledger: NewLedger(), inv: drawInventory(t), requests: map[ServiceKey]Request{}, now: noon}
		w.ledger.SetPools(w.inv)
		request := func(t *rapid.T) { w.request(t, answers) }
		t.Repeat(map[string]func(*rapid.T){
			"a Service comes or changes": request,
			"another comes":              request,
			"a Service goes":             w.remove,
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

func (w *world) request(t *rapid.T, answers func(*world, *rapid.T, answer)) {
	r := drawRequest(t)
	before := answer{Request: r, held: slices.Clone(w.ledger.Holds(r.Service)), free: w.oracle(r)}
	before.Decision = Allocate(w.ledger, r, w.now)
	if answers != nil {
		answers(w, t, before)
	}
	if before.Refused {
		return
	}
	apply(w.ledger, r, w.now)
	w.requests[r.Service] = r
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
	if n := len(w.ledger.Holds(k)); n > 0 {
		t.Fatalf("%v still holds %d addresses", k, n)
	}
}

func (w *world) noAddressIsHeldTwice(t *rapid.T) {
	for _, c := range w.ledger.Claims() {
		for i, h := range c.Holders {
			for _, o := range c.Holders[:i] {
				if reason := h.refusesToShare(o); reason != "" {
					t.Fatalf("%v is held by %v and %v: %v", c.Addr, o.Service, h.Service, reason)
				}
			}
			if !slices.Contains(w.ledger.Holds(h.Service), c.Addr) {
				t.Fatalf("%v does not know that it holds %v", h.Service, c.Addr)
			}
		}
	}
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
		if asked, ok := r.addr(FamilyOf(v.Addr)); ok && asked != v.Addr {
			t.Fatalf("%v asked for, %v given", asked, v.Addr)
		}
		if len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, r.Service.Namespace) && reserver(p, v.Addr) != r.Service {
			t.Fatalf("%v was given to %v", v.Addr, r.Service)
		}
		if k := reserver(p, v.Addr); k != (ServiceKey{}) && k != r.Service && r.Sharing == "" {
			t.Fatalf("%v is reserved for %v and was given to %v", v.Addr, k, r.Service)
		}
	}
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
				if w.couldGet(r, p, rg, a) {
					free[FamilyOf(a).index()] = true
				}
			}
		}
	}
	return free
}

func (w *world) couldGet(r Request, p inventory.Pool, rg inventory.Range, a netip.Addr) bool {
	asked, asks := r.addr(FamilyOf(a))
	mine := reserver(p, a) == r.Service
	switch {
	case p.State != inventory.PoolActive, !p.Contains(a), asks && asked != a, r.Pool != "" && r.Pool != p.Name:
		return false
	case p.SkipFirstLast && (a == rg.First || a == rg.Last):
		return false
	case !mine && len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, r.Service.Namespace):
		return false
	case !mine && !asks && !p.AutoAssign && r.Pool == "":
		return false
	}
	for _, x := range w.ledger.Resting() {
		if asks && x.Addr == a && x.Until.After(w.now) && x.Owner.Namespace != r.Service.Namespace && !mine {
			return false
		}
	}
	c, held := w.ledger.Claim(a)
	if k := reserver(p, a); k != (ServiceKey{}) && !mine &&
		!slices.ContainsFunc(c.Holders, func(h Holder) bool { return h.Service == k }) {
		return false
	}
	return !held || !slices.ContainsFunc(c.Holders, func(h Holder) bool {
		return h.Service == r.Service || r.refusesToShare(h) != ""
	})
}

func (w *world) exhaustedIffNothingIsFree(t *rapid.T, a answer) {
	r, d, free, held := a.Request, a.Decision, a.free, a.held
	if len(held) > 0 || len(r.Addrs) > 0 && r.Want.dual() {
		return // what is kept, or refused because one of two is, has its own tables
	}
	first, second := free[r.Want.First.index()], r.Want.dual() && free[r.Want.Second.index()]
	want := first && (second || !r.Want.dual())
	if r.Want.Optional {
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
		for _, h := range c.Holders {
			other.Hold(c.Addr, c.Pool, h)
		}
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
