package advertise

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// Gate holds offers back until kube-proxy on this machine has the rules for them: packets
// that come sooner are lost. It has no I/O and no clock: it returns the questions to ask
// ([Gate.Questions]) and observes the answers ([Gate.Answer]).
//
//   - An offer without endpoints passes as it is, so that a withdrawal never waits. Once it
//     has endpoints again it is held back like a new one.
//   - An offer of a Service that kube-proxy leaves alone passes as it is, too: nothing is known of the rules of others.
//     Once kube-proxy serves it, it is held back like a new one.
//   - An offer with endpoints passes once there is evidence of its rules, or there is no kube-proxy
//     to ask for any, or the bound is over. From then on it passes while it has endpoints.
//   - An offer that passes as the worse way, because its endpoints here terminate, stays so
//     until there is evidence of the ready endpoint that has arrived.
//   - An offer whose rules were seen, and are gone, is held back until they are there again,
//     without a bound: where another machine can serve it ([Offer.RulesLost]). [Gate.Passing] returns the
//     passing offers for that.
//
// The clock of a question runs only while the machine would announce the VIP but for the
// rules: [Gate.Observe] takes that from the plan.
type Gate struct {
	bound    time.Duration
	offers   sorted.List[Offer]    // as they are
	passed   sorted.List[Offer]    // as they are to be planned with
	refusals sorted.List[Refusal]  // of the last plan
	entries  map[offerKey]*entry   // of the offers that have endpoints
	asked    map[offerKey]struct{} // of these, the ones with a question
	changes  uint64                // of passed
	editions uint64                // changes of frontends
	asks     uint64                // changes of what is asked
	due      time.Time             // no question's bound is over before; zero: there is none that has one
}

// offerKey identifies an offer.
type offerKey struct {
	service lb.ServiceKey
	vip     netip.Addr
}

func keyOf(o Offer) offerKey { return offerKey{o.Service, o.VIP} }

// entry is the state of one offer with endpoints.
type entry struct {
	passes  bool
	worse   bool      // it passes as the worse way
	overdue bool      // it passes without evidence
	lost    bool      // it passed, and its rules are gone
	since   time.Time // there is a question, since then; zero: there is none

	frontend Frontend
	edition  uint64 // another one after each change of it
	ruled    bool   // the rules for it were there when it was last asked about
}

// Evidence is the observed state of kube-proxy's rules for one offer.
type Evidence string

// The evidence that answers a [Question], and that with which a question ends.
const (
	Absent  Evidence = "absent"  // the rules are not there yet
	Present Evidence = "present" // they are there
	Unknown Evidence = "unknown" // nobody can be asked
	Gone    Evidence = "gone"    // they were there, and are not any more
	Overdue Evidence = "overdue" // they were not there when the bound was over
)

// Question asks for evidence of the rules for one VIP of a Service, and so for one family.
type Question struct {
	Service  lb.ServiceKey
	VIP      netip.Addr
	Frontend Frontend
	Ready    bool // that kube-proxy knows of a ready endpoint of this machine is asked too
	Overdue  bool // the VIP is announced meanwhile: the answer is not urgent
	Lost     bool // the rules are gone: nor is it then
	Since    time.Time

	// Of [Gate.Passing] alone.
	Seen    bool   // the rules were there when it was asked about
	Edition uint64 // another one: the frontend has changed meanwhile, be it that it changed back
}

// Compare sorts by VIP and Service.
func (q Question) Compare(o Question) int {
	return cmp.Or(q.VIP.Compare(o.VIP), q.Service.Compare(o.Service))
}

// Answer is the evidence that was found for a question.
type Answer struct {
	Question Question
	Evidence Evidence
}

// NewGate returns a gate that passes an offer without evidence after the bound.
func NewGate(bound time.Duration) *Gate {
	return &Gate{bound: bound, entries: map[offerKey]*entry{}, asked: map[offerKey]struct{}{}}
}

// Adopt passes the offers that the previous process announced, at once, so that
// routers that kept their routes never miss them. An offer that was held back then is left out.
func (g *Gate) Adopt(offers sorted.List[Offer]) {
	for o := range offers.All() {
		if isGated(&o) && !o.RulesPending {
			g.entries[keyOf(o)] = &entry{passes: true, worse: demotionOf(&o) != "", frontend: o.Frontend, ruled: o.RulesSeen}
		}
	}
}

// Apply takes all offers as they are, and returns them as they are to be planned with.
func (g *Gate) Apply(offers sorted.List[Offer], now time.Time) sorted.List[Offer] {
	gone, put := sorted.Diff(g.offers, offers)
	g.offers = offers
	for _, offer := range gone {
		if !offers.Has(offer) {
			g.drop(keyOf(offer))
		}
	}
	for i, offer := range put {
		put[i] = g.pass(offer, now)
	}
	g.edit(gone, put)
	return g.passed
}

// pass returns one offer as it is to be planned with.
func (g *Gate) pass(offer Offer, now time.Time) Offer {
	key := keyOf(offer)
	offer.RulesPending, offer.RulesLost, offer.RulesSeen = false, false, false // what an earlier process knew
	if _, asked := g.asked[key]; asked {
		g.asks++ // about what has changed
	}
	if !isGated(&offer) {
		g.drop(key)
		return offer
	}
	known := g.entries[key]
	if known == nil {
		known = &entry{}
		g.entries[key] = known
		if g.refusals.Has(pendingRefusal(offer.Service, offer.VIP)) {
			g.ask(key, known, now)
		}
	}
	if was := known.frontend; was != offer.Frontend { // kube-proxy may not have heard yet, unless it was the sooner to hear that the VIP is shown
		was.Shown = true
		known.frontend, known.ruled = offer.Frontend, known.ruled && was == offer.Frontend
		g.editions++
		known.edition = g.editions
	}
	switch {
	case !known.passes:
		offer.RulesPending, offer.RulesLost = true, known.lost
	case known.worse && offer.LocalTraffic && offer.Endpoints.Ready:
		g.ask(key, known, now)
		offer.Endpoints.Terminating = true
	default:
		known.worse = demotionOf(&offer) != ""
		if !known.overdue {
			g.stopAsking(key, known)
		}
	}
	offer.RulesSeen = known.passes && known.ruled
	return offer
}

// isGated reports whether an offer has endpoints that are reached by rules of kube-proxy's.
func isGated(o *Offer) bool { return refusalOf(o) == "" && o.Frontend.Proxy == lb.KubeProxy }

func (g *Gate) drop(key offerKey) {
	if e := g.entries[key]; e != nil {
		g.stopAsking(key, e)
		delete(g.entries, key)
	}
}

func (g *Gate) ask(key offerKey, e *entry, now time.Time) {
	g.asks++ // the question may be another one
	g.asked[key] = struct{}{}
	if e.since.IsZero() || e.overdue {
		e.since, e.overdue = now, false
	}
	if g.due.IsZero() {
		g.due = now.Add(g.bound) // all have the same bound, so that those that come later are due later
	}
}

func (g *Gate) stopAsking(key offerKey, e *entry) {
	if !e.since.IsZero() {
		g.asks++
	}
	e.since, e.overdue = time.Time{}, false
	delete(g.asked, key)
}

// pendingRefusal returns the refusal of an offer that a plan would announce but for the rules.
func pendingRefusal(service lb.ServiceKey, vip netip.Addr) Refusal {
	return Refusal{Service: service, VIP: vip, Reason: lb.ProxyRulesPending}
}

// Observe takes the refusals of the plan that was made of the offers that Apply returned: for an offer that the
// machine does not announce for the rules alone it asks for evidence.
func (g *Gate) Observe(refusals sorted.List[Refusal], now time.Time) {
	gone, put := sorted.Diff(g.refusals, refusals)
	g.refusals = refusals
	held := func(refusal Refusal) *entry {
		if known := g.entries[offerKey{refusal.Service, refusal.VIP}]; known != nil && !known.passes && !known.lost && refusal.Reason == lb.ProxyRulesPending {
			return known
		}
		return nil
	}
	for _, refusal := range gone {
		if known := held(refusal); known != nil {
			g.stopAsking(offerKey{refusal.Service, refusal.VIP}, known)
		}
	}
	for _, refusal := range put {
		if known := held(refusal); known != nil {
			g.ask(offerKey{refusal.Service, refusal.VIP}, known, now)
		}
	}
}

// Questions returns the questions to ask, sorted by VIP and Service; none: nothing is pending.
func (g *Gate) Questions() []Question {
	all := make([]Question, 0, len(g.asked))
	for key := range g.asked {
		all = append(all, g.question(key))
	}
	slices.SortFunc(all, Question.Compare)
	return all
}

// question returns the question about an offer that is asked about.
func (g *Gate) question(key offerKey) Question {
	o, _ := g.offers.Next(Offer{Service: key.service, VIP: key.vip})
	e := g.entries[key]
	return Question{
		Service: o.Service, VIP: o.VIP, Frontend: o.Frontend, Ready: o.LocalTraffic && o.Endpoints.Ready, Overdue: e.overdue, Lost: e.lost, Since: e.since,
	}
}

// Passing returns questions about all offers with endpoints that pass, and that nothing is asked about, by VIP
// and Service: whether their rules are still there. Of a VIP that its Service's status does not show
// kube-proxy has none anywhere, whatever program wrote the status.
func (g *Gate) Passing() (all []Question) {
	for o := range g.offers.All() {
		if e := g.entries[keyOf(o)]; e != nil && e.passes && e.since.IsZero() && o.Frontend.Shown {
			all = append(all, Question{Service: o.Service, VIP: o.VIP, Frontend: o.Frontend, Seen: e.ruled, Edition: e.edition})
		}
	}
	return all
}

// See records that rules are there, by the questions of [Gate.Passing]. It ignores questions about an offer that has changed since.
func (g *Gate) See(there []Question, now time.Time) {
	var changed []offerKey
	for _, q := range there {
		key := offerKey{q.Service, q.VIP}
		if e := g.entries[key]; e != nil && e.passes && !e.ruled && e.edition == q.Edition {
			e.ruled = true
			changed = append(changed, key)
		}
	}
	g.replan(changed, now)
}

// Lose records that rules that were there are gone, by the questions of [Gate.Passing]. It ignores questions about an offer
// that has changed since.
func (g *Gate) Lose(gone []Question, now time.Time) (ended []Passage) {
	var changed []offerKey
	for _, q := range gone {
		key := offerKey{q.Service, q.VIP}
		known := g.entries[key]
		if known == nil || !known.passes || !known.since.IsZero() || known.edition != q.Edition {
			continue
		}
		known.passes, known.worse, known.lost = false, false, true
		g.asks++
		g.asked[key], known.since = struct{}{}, now // it has no bound
		ended, changed = append(ended, Passage{g.question(key), Gone, 0}), append(changed, key)
	}
	g.replan(changed, now)
	return ended
}

// Passage is the end of a question: the evidence that was found, and the time that it took.
type Passage struct {
	Question Question
	Evidence Evidence
	After    time.Duration
}

// Answer observes answers. It ignores those to a question that is not asked any more, or has changed
// since.
func (g *Gate) Answer(answers []Answer, now time.Time) (ended []Passage) {
	var changed []offerKey
	for _, answer := range answers {
		key := offerKey{answer.Question.Service, answer.Question.VIP}
		if _, asked := g.asked[key]; !asked || answer.Evidence == Absent {
			continue
		}
		q := g.question(key)
		if answer.Question.Overdue = q.Overdue; answer.Question != q {
			continue
		}
		if !q.Overdue {
			ended = append(ended, Passage{q, answer.Evidence, now.Sub(q.Since)})
		}
		known := g.entries[key]
		known.passes, known.worse, known.lost, known.ruled = true, false, false, answer.Evidence == Present
		g.stopAsking(key, known)
		changed = append(changed, key)
	}
	g.replan(changed, now)
	return ended
}

// Expire passes the offers that have waited for the bound. Their questions are asked on.
func (g *Gate) Expire(now time.Time) (ended []Passage) {
	if g.due.IsZero() || now.Before(g.due) {
		return nil
	}
	g.due = time.Time{}
	var changed []offerKey
	for _, question := range g.Questions() {
		due := question.Since.Add(g.bound)
		switch {
		case question.Overdue, question.Lost:
		case now.Before(due):
			if g.due.IsZero() || due.Before(g.due) {
				g.due = due
			}
		default:
			key := offerKey{question.Service, question.VIP}
			known := g.entries[key]
			known.passes, known.worse, known.overdue = true, false, true
			ended, changed = append(ended, Passage{question, Overdue, now.Sub(question.Since)}), append(changed, key)
		}
	}
	g.asks += uint64(len(changed))
	g.replan(changed, now)
	return ended
}

// replan updates some offers among those that are planned with.
func (g *Gate) replan(keys []offerKey, now time.Time) {
	offers := make([]Offer, 0, len(keys))
	for _, key := range keys {
		o, _ := g.offers.Next(Offer{Service: key.service, VIP: key.vip})
		offers = append(offers, g.pass(o, now))
	}
	g.edit(nil, offers)
}

// edit removes offers from those that are planned with, and adds others.
func (g *Gate) edit(gone, put []Offer) {
	if len(gone)+len(put) > 0 {
		g.passed = g.passed.Edit(gone, put)
		g.changes++
	}
}

// Changes returns the number of changes of Apply's result, so far.
func (g *Gate) Changes() uint64 { return g.changes }

// Asks returns the number of changes of the result of Questions, so far, and may count too many.
func (g *Gate) Asks() uint64 { return g.asks }

// Next returns the time until a bound may be over; 0: nothing is pending.
func (g *Gate) Next(now time.Time) time.Duration {
	if g.due.IsZero() {
		return 0
	}
	return max(1, g.due.Sub(now))
}
