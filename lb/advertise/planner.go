package advertise

import (
	"math"
	"net/netip"
	"reflect"
	"slices"

	"plinth.dev/plinth/sorted"
)

// Planner plans like [PlanOf], again and again, and remembers what it has planned:
// where only offers differ from the last view, it decides anew on their prefixes alone.
// Plans share what stays. Its zero value has planned nothing yet.
type Planner struct {
	ground     *ground
	offers     sorted.List[Offer]
	candidates sorted.List[candidate]
	plan       Plan
}

// Plan decides what a machine says. The caller may keep the plan.
func (p *Planner) Plan(v View) Plan {
	offers := v.Offers
	v.Offers = sorted.List[Offer]{}
	if p.ground == nil || !reflect.DeepEqual(p.ground.view, v) {
		p.begin(v)
	}
	gone, put := sorted.Diff(p.offers, offers)
	p.offers = offers
	if len(gone)+len(put) > 0 {
		was, unsaid := p.ground.judge(gone)
		is, refused := p.ground.judge(put)
		p.change(was, is)
		p.plan.Refusals = p.plan.Refusals.Edit(unsaid, refused)
	}
	return p.plan
}

// begin plans from nothing, and without offers.
func (p *Planner) begin(v View) {
	*p = Planner{ground: groundOf(v)}
	for _, s := range p.ground.sessions {
		p.plan.Sessions = append(p.plan.Sessions, SessionPlan{Session: s})
	}
	candidates, refused := p.ground.pods()
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
	p.plan.Sessions = slices.Clone(p.plan.Sessions) // somebody may have kept the last plan
	for i := range p.plan.Sessions {
		ads := &p.plan.Sessions[i].Advertisements
		*ads = ads.Edit(p.say(i, prefixes))
	}
	p.plan.Demotions = p.plan.Demotions.Edit(p.demote(prefixes))
}

// demote lists which of some prefixes are not announced as the worse way any more, and
// which are.
func (p *Planner) demote(prefixes []netip.Prefix) (gone, put []Demotion) {
	for _, prefix := range prefixes {
		d := Demotion{Prefix: prefix}
		if c, ok := p.first(prefix); ok && c.demotion != "" && p.announced(c) {
			d.Reason = c.demotion
			put = append(put, d)
		} else {
			gone = append(gone, d)
		}
	}
	return gone, put
}

// announced reports whether any session announces a candidate.
func (p *Planner) announced(c candidate) bool {
	for i := range p.ground.sessions {
		if _, said := p.ground.advertisement(i, c); said {
			return true
		}
	}
	return false
}

// say is what a session does not say any more of some prefixes, and what it does.
func (p *Planner) say(i int, prefixes []netip.Prefix) (gone, put []Advertisement) {
	put = make([]Advertisement, 0, len(prefixes))
	for _, prefix := range prefixes {
		if ad, said := p.advertisement(i, prefix); said {
			put = append(put, ad)
		} else {
			gone = append(gone, Advertisement{Prefix: prefix})
		}
	}
	return gone, put
}

// advertisement is what a session says of a prefix, as its first candidate has it.
func (p *Planner) advertisement(i int, prefix netip.Prefix) (Advertisement, bool) {
	c, ok := p.first(prefix)
	if !ok {
		return Advertisement{}, false
	}
	return p.ground.advertisement(i, c)
}

// first is the candidate whose attributes a prefix has.
func (p *Planner) first(prefix netip.Prefix) (candidate, bool) {
	c, ok := p.candidates.Next(candidate{prefix: prefix, bandwidth: math.MaxUint32})
	return c, ok && c.prefix == prefix
}
