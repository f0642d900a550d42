package advertise

import (
	"math"
	"net/netip"
	"reflect"
	"slices"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// Planner plans like [PlanOf], again and again, and remembers what it has planned:
// where only offers differ from the last view, it decides anew on their prefixes alone.
// Plans share what stays. Its zero value has planned nothing yet.
type Planner struct {
	input      *input
	offers     sorted.List[Offer]
	candidates sorted.List[candidate]
	plan       Plan
}

// Plan decides what a machine says. The caller may keep the plan.
func (p *Planner) Plan(v View) Plan {
	offers := v.Offers
	v.Offers = sorted.List[Offer]{}
	if p.input == nil || !reflect.DeepEqual(p.input.view, v) {
		p.begin(v)
	}
	gone, put := sorted.Diff(p.offers, offers)
	p.offers = offers
	if len(gone)+len(put) > 0 {
		was, unsaid := p.input.judge(gone)
		is, refused := p.input.judge(put)
		p.change(was, is)
		p.plan.Refusals = p.plan.Refusals.Edit(unsaid, refused)
	}
	return p.plan
}

// begin plans from nothing, and without offers.
func (p *Planner) begin(v View) {
	*p = Planner{input: inputOf(v)}
	for _, s := range p.input.sessions {
		p.plan.Sessions = append(p.plan.Sessions, SessionPlan{Session: s})
	}
	candidates, refused := p.input.pods()
	p.change(nil, candidates)
	p.plan.Refusals = sorted.Of(refused...)
}

// change takes candidates out and in, and has every session say what becomes of their
// prefixes.
func (p *Planner) change(gone, put []candidate) {
	p.candidates = p.candidates.Edit(gone, put)
	prefixes := make([]netip.Prefix, 0, len(gone)+len(put))
	for _, c := range slices.Concat(gone, put) {
		prefixes = append(prefixes, c.prefix)
	}
	slices.SortFunc(prefixes, comparePrefixes)
	prefixes = slices.Compact(prefixes)
	p.plan.Sessions = slices.Clone(p.plan.Sessions) // a caller may have kept the last plan
	for i := range p.plan.Sessions {
		ads := &p.plan.Sessions[i].Advertisements
		*ads = ads.Edit(p.advertisementsOf(i, prefixes))
	}
	p.plan.Demotions = p.plan.Demotions.Edit(p.demote(prefixes))
}

// demote lists which of some prefixes are not announced as the worse way any more, and
// which are.
func (p *Planner) demote(prefixes []netip.Prefix) (gone, put []Demotion) {
	for _, prefix := range prefixes {
		d := Demotion{Prefix: prefix}
		if d.Reason = p.demotion(prefix); d.Reason != "" {
			put = append(put, d)
		} else {
			gone = append(gone, d)
		}
	}
	return gone, put
}

// demotion returns the reason why any session announces a prefix as the worse way; empty: none does.
func (p *Planner) demotion(prefix netip.Prefix) lb.Reason {
	for i := range p.input.sessions {
		if c, said := p.first(i, prefix); said && c.demotion != "" {
			return c.demotion
		}
	}
	return ""
}

// advertisementsOf returns the routes to some prefixes that a session withdraws, and those that it announces.
func (p *Planner) advertisementsOf(i int, prefixes []netip.Prefix) (gone, put []Advertisement) {
	put = make([]Advertisement, 0, len(prefixes))
	for _, prefix := range prefixes {
		if c, said := p.first(i, prefix); said {
			put = append(put, p.input.advertisement(i, c))
		} else {
			gone = append(gone, Advertisement{Prefix: prefix})
		}
	}
	return gone, put
}

// first is the candidate whose attributes a session announces a prefix with; false: it does
// not announce it. What one candidate of an advertisement wants of a session, all of them do.
func (p *Planner) first(session int, prefix netip.Prefix) (candidate, bool) {
	from := candidate{prefix: prefix, bandwidth: math.MaxUint32}
	for {
		next, ok := p.candidates.Next(from)
		if !ok || next.prefix != prefix {
			return candidate{}, false
		}
		if p.input.announces(session, next) {
			return next, true
		}
		from.demotion, from.order = next.demotion, next.order+1
	}
}
