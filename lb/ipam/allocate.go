package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Assignment is a VIP that a Service has, or is to have.
type Assignment struct {
	Addr netip.Addr
	Pool string // that it is, or was, given from; empty: not known
	New  bool   // not held by the Service yet
}

// Decision is the answer to a [Request].
type Decision struct {
	VIPs       []Assignment // in the order of Request.Want; several of a family only where the Service asks for them, in its order
	Release    []netip.Addr // held, and to be given back once the VIPs are held; sorted
	Refused    bool         // the Service does not get what it asks for; VIPs is what it keeps
	Denials    []Denial     // why not; also why PreferDualStack got one family only
	Unreported []netip.Addr // of who is refused: to be given back before it is told; see [State.Request]
}

// Addrs returns the addresses of the VIPs.
func (d Decision) Addrs() []netip.Addr {
	all := make([]netip.Addr, len(d.VIPs))
	for i, v := range d.VIPs {
		all[i] = v.Addr
	}
	return all
}

// String prints for an operator what was given from where, then every "no".
func (d Decision) String() string {
	var said []string
	for _, v := range d.VIPs {
		text := v.Addr.String()
		if v.Pool != "" {
			text += " of pool " + v.Pool
		}
		if d.Refused {
			text = "keeps " + text
		}
		said = append(said, text)
	}
	return strings.Join(append(said, inventory.Strings(d.Denials)...), "; ")
}

// Allocate decides which VIPs a Service is to have at the time now. A VIP that it
// holds is kept, even if its pool would not give it any more, unless the Service
// itself asks for something else. A new one is, in this order: what it asks for,
// what is reserved for it, what it held before, what it may share, and then the
// lowest free address of the first pool, in order of preference, that lets it in;
// with two families, of the first pool that has both. When nothing else is left,
// it is the address that was released first.
//
// The Ledger ends quarantines that are over, and is otherwise left as it is.
func Allocate(l *Ledger, r Request, now time.Time) Decision { return allocate(l, r, nil, nil, now) }

// allocate is Allocate for a Service that was told of VIPs, and to whose name an earlier Service
// left some.
func allocate(l *Ledger, r Request, told, left []netip.Addr, now time.Time) Decision {
	l.endQuarantines(now)
	query := search{l: l, r: r, told: told, left: left}
	query.keep()
	if !query.askedRefused() {
		query.fill()
		if !query.short() {
			return query.granted()
		}
	}
	return query.refused()
}

// mayStay reports whether the Service itself did nothing that moves it away from a. What an
// earlier Service of its name left stays where this one could be given it.
func (s *search) mayStay(addr netip.Addr) bool {
	holding := s.l.holdings[addr]
	if s.r.asks(lb.FamilyOf(addr)) {
		if !slices.Contains(s.r.Addrs, addr) {
			return false
		}
	} else if s.r.Pool != "" && s.r.Pool != holding.pool && s.r.Pool != s.l.Pool(addr) {
		return false
	} else if p := s.l.poolOf(addr); slices.Contains(s.left, addr) && (p == nil || s.bars(p, addr, false) != "" || s.l.isBarredByExternal(addr, s.r.Service)) {
		return false
	}
	if h, _ := holding.holder(s.r.Service); h.equal(s.r.Holder) {
		return true
	}
	return !holding.clashes(s.r.Holder)
}

// askedRefused reports whether the Service cannot have what it asks for by address.
func (s *search) askedRefused() bool {
	if len(s.r.Invalid) > 0 {
		return true
	}
	for _, a := range s.r.Addrs {
		if d := s.denyAsked(a); d.Reason != "" {
			return true
		}
	}
	return false
}

// denyAsked returns the denial of an address that the Service asks for.
func (s *search) denyAsked(addr netip.Addr) Denial {
	pool := s.l.poolOf(addr)
	switch {
	case !s.r.Want.has(lb.FamilyOf(addr)):
		return Denial{Reason: lb.FamilyNotRequested, Address: addr, Family: lb.FamilyOf(addr)}
	case s.has(addr):
		return Denial{}
	case pool == nil:
		return s.l.denyOutside(addr, s.r.Service)
	case s.r.Pool != "" && s.r.Pool != pool.Name:
		return Denial{Reason: lb.AddressNotInPool, Pool: s.r.Pool, Address: addr}
	}
	denial := Denial{Reason: s.gate(pool, addr, true)}
	if denial.Reason == "" {
		denial = s.unavailable(addr)
	}
	if denial.Holder.Namespace != s.r.Service.Namespace {
		denial.Holder = lb.ServiceKey{} // who holds what in other namespaces is nobody's business
	}
	denial.Pool, denial.Address = pool.Name, addr
	return denial
}

// denyOutside distinguishes an address that a pool excludes, or that has another owner, from one that no pool has.
func (l *Ledger) denyOutside(addr netip.Addr, k lb.ServiceKey) Denial {
	for _, p := range l.pools {
		if p.Covers(addr) {
			return Denial{Reason: lb.AddressExcluded, Pool: p.Name, Address: addr, Detail: l.takenDetail(addr, k)}
		}
	}
	return Denial{Reason: lb.AddressNotInPool, Address: addr}
}

// takenDetail returns the detail of the denial of an address that has another owner.
func (l *Ledger) takenDetail(a netip.Addr, k lb.ServiceKey) string {
	if who := l.TakenBy(a, k); who != "" {
		return "taken by " + who
	}
	return ""
}

// unavailable is occupied, of an address that may be among the externalIPs of others, too. A reservation outweighs those,
// and says more to who is refused.
func (s *search) unavailable(a netip.Addr) Denial {
	d := s.occupied(a)
	if d.Reason != lb.AddressReserved && s.l.isBarredByExternal(a, s.r.Service) {
		return Denial{Reason: lb.AddressExcluded, Detail: s.l.takenDetail(a, s.r.Service)}
	}
	return d
}

// occupied returns the denial of an address that is reserved for, or held by, a Service that does not share it,
// or in quarantine after a Service of another namespace: a Service must not get an address by
// waiting for its owner to release it for a moment. A reservation is the operator's
// decision, and outweighs that.
func (s *search) occupied(a netip.Addr) (denial Denial) {
	holding, held := s.l.holdings[a]
	former, resting := s.l.quarantine[a]
	owner := s.l.reserved[a]
	_, shares := holding.holder(owner)
	switch {
	case owner != (lb.ServiceKey{}) && owner != s.r.Service && !shares:
		denial.Reason, denial.Holder = lb.AddressReserved, owner
	case held:
		denial.Reason, denial.Holder = holding.refuses(s.r.Holder)
	case resting && former.Owner.Namespace != s.r.Service.Namespace && owner != s.r.Service:
		denial.Reason, denial.Until = lb.AddressResting, former.Until
	}
	return denial
}

// gate returns the reason why a pool does not admit the Service; asked is true when the Service
// asks for a or it is reserved for it. A reservation is the operator's decision for that
// Service, so it outweighs the pool's namespaces and selector.
func (s *search) gate(pool *pool, addr netip.Addr, asked bool) lb.Reason {
	switch {
	case pool.State == inventory.PoolDisabled:
		return lb.PoolIsDisabled
	case pool.State == inventory.PoolDraining:
		return lb.PoolIsDraining
	}
	return s.bars(pool, addr, asked)
}

// bars is gate, whatever the pool's state.
func (s *search) bars(pool *pool, a netip.Addr, asked bool) lb.Reason {
	switch {
	case a.IsValid() && s.l.reserved[a] == s.r.Service:
		return ""
	case !pool.AllowsNamespace(s.r.Service.Namespace, s.l.namespaces[s.r.Service.Namespace]):
		return lb.NamespaceNotAllowed
	case !pool.SelectsService(s.r.Labels):
		return lb.LabelsNotSelected
	case !pool.AutoAssign && !asked && s.r.Pool != pool.Name:
		return lb.PoolNotAutomatic
	}
	return ""
}

// MayAdopt reports whether the ledger may adopt an address for a Service that another program gave
// it: under the rules for asking for it at the time now, but from a pool of any state, and
// whatever Service has it among externalIPs, as with an address that Plinth gave: packets to it go on as they do. So a user who
// may write a Service's status can have an address adopted that others have among theirs, and that no Service would get by
// asking. A Reason other than "" is the refusal.
func (l *Ledger) MayAdopt(addr netip.Addr, r Request, now time.Time) lb.Reason {
	l.endQuarantines(now)
	s := search{l: l, r: r}
	p := l.poolOf(addr)
	if p == nil {
		return l.denyOutside(addr, r.Service).Reason
	}
	return cmp.Or(s.bars(p, addr, true), s.occupied(addr).Reason)
}

// open reports whether the Service may have any address of the pool without asking for it.
func (s *search) open(p *pool) bool {
	return p != nil && (s.r.Pool == "" || s.r.Pool == p.Name) && s.gate(p, netip.Addr{}, false) == ""
}

// fill finds what is missing: what the Service has a better claim to than others comes first.
func (s *search) fill() {
	for _, a := range s.r.Addrs {
		if s.r.Want.has(lb.FamilyOf(a)) && !s.has(a) {
			s.take(a)
		}
	}
	for _, a := range s.l.reservedFor[s.r.Service] {
		s.takeKept(a)
	}
	for _, r := range slices.Backward(s.l.former[s.r.Service]) {
		s.takeKept(r.Addr)
	}
	first, second := s.r.Want.First, s.r.Want.Second
	for _, f := range s.r.Want.families() {
		if s.missing(f) {
			s.share(f)
		}
	}
	if s.missing(first) && s.missing(second) && s.pair() {
		return
	}
	s.fresh(first)
	s.fresh(second)
}

// takeKept takes an address that was kept for the Service, if it lacks one of that family.
func (s *search) takeKept(a netip.Addr) {
	if s.missing(lb.FamilyOf(a)) && s.lets(a) && s.unavailable(a).Reason == "" {
		s.take(a)
	}
}

// lets is open for the pool of an address that may be reserved for the Service.
func (s *search) lets(a netip.Addr) bool {
	p := s.l.poolOf(a)
	return p != nil && (s.r.Pool == "" || s.r.Pool == p.Name) && s.gate(p, a, false) == ""
}

// pair takes both families from the first pool that has both.
func (s *search) pair() bool {
	for _, p := range s.l.pools {
		four, ok4 := p.of(lb.IPv4).free.lowest()
		six, ok6 := p.of(lb.IPv6).free.lowest()
		if ok4 && ok6 && s.open(p) {
			s.take(four)
			s.take(six)
			return true
		}
	}
	return false
}

// fresh takes a free address: of the pool that the other family is from if it can,
// of any other pool if it must, and one in quarantine if nothing else is left.
func (s *search) fresh(family lb.Family) {
	if !s.missing(family) {
		return
	}
	if o := s.first[index(family.Other())]; o.Addr.IsValid() && s.freeOf(s.l.poolOf(o.Addr), family) {
		return
	}
	for _, p := range s.l.pools {
		if s.freeOf(p, family) {
			return
		}
	}
	for _, p := range s.l.pools {
		if q := p.of(family).quarantine; len(q) > 0 && s.open(p) {
			s.take(q[0].Addr)
			return
		}
	}
}

func (s *search) freeOf(p *pool, f lb.Family) bool {
	if !s.open(p) {
		return false
	}
	a, ok := p.of(f).free.lowest()
	if ok {
		s.take(a)
	}
	return ok
}

// granted is the decision when enough was found.
func (s *search) granted() Decision {
	decision := Decision{VIPs: s.vips(s.r.Addrs)}
	for _, a := range s.l.byService[s.r.Service] {
		if !s.has(a) {
			decision.Release = append(decision.Release, a)
		}
	}
	if s.missing(s.r.Want.First) || s.missing(s.r.Want.Second) {
		decision.Denials = s.denials()
	}
	return decision
}

// refused is the decision when it was not: the Service keeps what it holds of the
// families that it still has.
func (s *search) refused() Decision {
	decision := Decision{Refused: true, Denials: s.denials()}
	for _, a := range s.l.byService[s.r.Service] {
		if !s.r.Want.has(lb.FamilyOf(a)) {
			decision.Release = append(decision.Release, a)
		}
	}
	s.first, s.more = [2]Assignment{}, nil
	s.keepReported()
	decision.VIPs = s.vips(slices.Concat(s.r.Shown, s.told))
	return decision
}

// denials returns the reasons why the missing addresses were not found: first the errors of the
// request, and then pool by pool in order of preference.
func (s *search) denials() []Denial {
	if len(s.r.Invalid) > 0 {
		return s.r.Invalid
	}
	all := make([]Denial, 0, 2*len(s.l.pools)+2)
	for _, a := range s.r.Addrs {
		if d := s.denyAsked(a); d.Reason != "" {
			all = append(all, d)
		}
	}
	switch {
	case len(all) > 0:
		return all
	case len(s.l.pools) == 0:
		return append(all, Denial{Reason: lb.NoPools})
	case s.r.Pool != "" && s.l.poolNamed(s.r.Pool) == nil:
		return append(all, Denial{Reason: lb.PoolUnknown, Pool: s.r.Pool, Detail: "there is " + s.l.poolNames()})
	}
	for _, p := range s.l.pools {
		if s.r.Pool == "" || s.r.Pool == p.Name {
			all = s.denyPool(all, p)
		}
	}
	return all
}

func (s *search) denyPool(all []Denial, pool *pool) []Denial {
	if reason := s.gate(pool, netip.Addr{}, false); reason != "" {
		return append(all, Denial{Reason: reason, Pool: pool.Name})
	}
	for _, family := range s.r.Want.families() {
		switch {
		case !s.missing(family):
		case pool.of(family).size > 0:
			all = append(all, Denial{Reason: lb.PoolExhausted, Pool: pool.Name, Family: family, Detail: pool.of(family).full()})
		default:
			all = append(all, Denial{Reason: lb.PoolLacksFamily, Pool: pool.Name, Family: family})
		}
	}
	return all
}
