package ipam

import (
	"fmt"
	"math/rand"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

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

func TestWhatIsHeldAndForgottenIsAsItWas(t *testing.T) {
	live(t, (*world).forgottenIsAsItWas, nil)
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

// whatIsHeldIsKept asks for all Services what they asked for before, once their statuses show what they got.
func (w *world) whatIsHeldIsKept(t *rapid.T) {
	for k, r := range w.requests {
		held := w.ledger.Holds(k)
		r.Shown = held // its status has told clients: of several that nobody knows one that is refused keeps one
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
	var keys []lb.ServiceKey
	for k := range w.requests {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, lb.ServiceKey.Compare)
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
	for _, c := range w.ledger.Holdings() {
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
func (w *world) settled(k lb.ServiceKey) bool { return w.requests[k].Holder.equal(w.said[k].Holder) }

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
		asks := r.asks(lb.FamilyOf(v.Addr))
		if asks && !slices.Contains(r.Addrs, v.Addr) {
			t.Fatalf("%v asked for, %v given", r.Addrs, v.Addr)
		}
		if !w.fits(r.Holder, v.Addr) {
			t.Fatalf("%v was given to %+v, and does not fit with those that have it", v.Addr, r.Holder)
		}
		if w.hasTaken(v.Addr, r.Service, reserver(p, v.Addr)) {
			t.Fatalf("%v was given to %v, and the cluster has it: %v", v.Addr, r.Service, w.taken)
		}
		if isEnd(p, v.Addr) {
			t.Fatalf("%v was given, which skipFirstLast leaves out", v.Addr)
		}
		owner := reserver(p, v.Addr)
		if owner != (lb.ServiceKey{}) && owner != r.Service && !slices.Contains(w.given[owner], v.Addr) {
			t.Fatalf("%v is reserved for %v, which does not have it, and was given to %v", v.Addr, owner, r.Service)
		}
		if owner == r.Service {
			continue
		}
		switch {
		case !w.isFor(p, r.Service.Namespace):
			t.Fatalf("%v was given to %v, whose namespace the pool is not for", v.Addr, r.Service)
		case !selects(p, r):
			t.Fatalf("%v was given to %v, which the pool does not select", v.Addr, r.Service)
		case !p.AutoAssign && !asks && r.Pool != p.Name:
			t.Fatalf("%v was given to %v, which asked for nothing of the pool", v.Addr, r.Service)
		}
	}
}

// isFor reports whether a pool is for a namespace: it names that, or selects the team that it is of.
func (w *world) isFor(p inventory.Pool, namespace string) bool {
	all := len(p.Namespaces)+len(p.NamespaceSelectors) == 0
	return all || slices.Contains(p.Namespaces, namespace) || len(p.NamespaceSelectors) > 0 && w.teams[namespace] == "x"
}

// selects reports whether a pool has a selector with the tier of a Service, or none at all.
func selects(p inventory.Pool, r Request) bool {
	return len(p.Selectors) == 0 || slices.ContainsFunc(p.Selectors, func(s inventory.Selector) bool { return s.MatchLabels["tier"] == r.Labels["tier"] })
}

// isEnd reports whether a is the first or last address of a prefix of the pool that skips
// these. All prefixes here have more than two addresses.
func isEnd(p inventory.Pool, a netip.Addr) bool {
	return p.SkipFirstLast && slices.ContainsFunc(p.Ranges, func(r inventory.Range) bool { return r.Prefix && (a == r.First || a == r.Last) })
}

func reserver(p inventory.Pool, a netip.Addr) lb.ServiceKey {
	for _, r := range p.Reserved {
		if r.Addr == a {
			return lb.ServiceKey{Namespace: r.Namespace, Name: r.Name}
		}
	}
	return lb.ServiceKey{}
}

// oracle says, by looking at every single address, for which families there is
// one that the Service could get, apart from those it holds; or all that it asks for.
func (w *world) oracle(r Request) (free [2]bool) {
	asksFor := [2]int{}
	for _, a := range r.Addrs {
		asksFor[index(lb.FamilyOf(a))]++
	}
	could := w.could(r)
	for f := range free {
		free[f] = could[f] > 0 && could[f] >= asksFor[f]
	}
	return free
}

// could counts the addresses of each family that the Service could get.
func (w *world) could(r Request) (could [2]int) {
	for _, p := range w.inv.Pools {
		for _, rg := range p.Ranges {
			for a := rg.First; rg.Contains(a); a = a.Next() {
				if w.couldGet(r, p, a) {
					could[index(lb.FamilyOf(a))]++
				}
			}
		}
	}
	return could
}

func (w *world) couldGet(r Request, p inventory.Pool, a netip.Addr) bool {
	asks := r.asks(lb.FamilyOf(a))
	owner := reserver(p, a)
	mine := owner == r.Service
	switch {
	case w.hasTaken(a, r.Service, owner), p.State != inventory.PoolActive, !p.Contains(a), isEnd(p, a), asks && !slices.Contains(r.Addrs, a), r.Pool != "" && r.Pool != p.Name:
		return false
	case !mine && !(w.isFor(p, r.Service.Namespace) && selects(p, r)):
		return false
	case !mine && !asks && !p.AutoAssign && r.Pool == "":
		return false
	case !mine && owner != (lb.ServiceKey{}) && !slices.Contains(w.given[owner], a):
		return false
	}
	for _, x := range w.ledger.Quarantined() {
		if asks && x.Addr == a && x.Until.After(w.now) && x.Owner.Namespace != r.Service.Namespace && !mine {
			return false
		}
	}
	return w.fits(r.Holder, a)
}

func (w *world) exhaustedIffNothingIsFree(t *rapid.T, a answer) {
	r, d, free, held := a.Request, a.Decision, a.free, a.held
	if len(held) > 0 || slices.ContainsFunc(w.taken, func(t lb.Taken) bool { return t.Service == r.Service }) {
		return // what is kept, and one's own externalIPs, which one has to ask for, have their own tables
	}
	first, second := free[index(r.Want.First)], r.Want.dual() && free[index(r.Want.Second)]
	want := first && (second || !r.Want.dual())
	if r.Want.Optional {
		switch one, other := r.asks(r.Want.First), r.asks(r.Want.Second); {
		case one && other:
			want = first && second // it asks for both, so it does not do with one
		case one:
			want = first
		case other:
			want = second
		default:
			want = first || second
		}
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
	claims, resting, taken := w.ledger.Holdings(), w.ledger.Quarantined(), slices.Clone(w.taken)
	shuffle.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
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
		other.Quarantine(x)
	}
	for name, team := range w.teams {
		other.SetNamespace(name, map[string]string{"team": team})
	}
	other.SetPools(&inv, taken...)
	a, b := Allocate(w.ledger, r, w.now), Allocate(other, r, w.now)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v: %s, but in another order %s", r, brief(a), brief(b))
	}
}

// forgottenIsAsItWas has a Service fail to take what it is to have.
func (w *world) forgottenIsAsItWas(t *rapid.T, was answer) {
	resting := w.ledger.Quarantined()
	for _, v := range was.VIPs {
		if v.New {
			w.ledger.Hold(v.Addr, v.Pool, was.Holder)
		}
	}
	for _, v := range was.VIPs {
		if v.New {
			w.ledger.Revert(v.Addr, was.Service)
		}
	}
	if got := w.ledger.Quarantined(); !slices.Equal(got, resting) {
		t.Fatalf("%v rested, and now %v does", resting, got)
	}
	if again := Allocate(w.ledger, was.Request, w.now); !reflect.DeepEqual(again, was.Decision) {
		t.Fatalf("%+v: %s, but after it was forgotten %s", was.Request, brief(was.Decision), brief(again))
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
				for _, a := range slices.Clone(l.Holds(lb.ServiceKey{Namespace: "d", Name: fmt.Sprintf("s%d", i)})) {
					l.Revert(a, lb.ServiceKey{Namespace: "d", Name: fmt.Sprintf("s%d", i)})
				}
			}
		}
		for f, stock := range l.pools[0].stocks {
			runs := 0
			for _, leaf := range stock.free.leaves {
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
		for _, f := range []lb.Family{lb.IPv4, lb.IPv6} {
			s.share(f)
			want := netip.Addr{}
			for _, c := range w.ledger.Holdings() { // sorted
				if lb.FamilyOf(c.Addr) == f && !want.IsValid() && w.mayJoin(a.Request, c) {
					want = c.Addr
				}
			}
			if got := s.first[index(f)].Addr; got != want {
				t.Fatalf("%+v may share %v, and is led to %v", a.Request, want, got)
			}
		}
	}, nil)
}

// mayJoin is share for one address, by the rules as the reference tells them.
func (w *world) mayJoin(r Request, c Holding) bool {
	p, _ := w.inv.PoolOf(c.Addr)
	r.Addrs = nil
	return r.Sharing != "" && len(c.Holders) > 0 && w.couldGet(r, p, c.Addr)
}
