package advertise

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/lb"
)

const (
	// joint is for how long the machines that were active before an edit count as well: agents
	// hear of it within seconds.
	joint = time.Minute
	// careful is how often a machine without a majority looks whether it still is the only one that
	// answers, and trust for how long what it saw counts.
	careful = time.Second
	trust   = 1500 * time.Millisecond
	// aside is how long an address that a foreign host has is left alone before it is looked for
	// again.
	aside = 5 * time.Second
	// verifies is how often the first in a VIP's order looks whether the machine answers that has it in its
	// place: two that each take the other for the owner would leave nobody.
	verifies = 5 * time.Second
	// verifiesAgain is how long after one look without an answer it looks once more: by then it is known
	// of a machine whose agent has ended.
	verifiesAgain = time.Second
	// settles is how long a machine that begins leaves VIPs that nobody answers for to their first homes,
	// which may begin a moment later: whoever has a VIP keeps it.
	settles = 15 * time.Second
	// yields is how long the next owner of a VIP is waited for while this machine answers on, though it cannot serve
	// it any more. One that can serve it answers on until it hears or finds the other one, and after resigns takes it
	// that the other does not know that it is the owner.
	yields  = 2 * time.Second
	resigns = 10 * time.Second
)

// Succession is one machine on one segment: it says which VIPs it answers for. It asks nobody and has
// no clock: it says whom to look for on the wire ([Step.Probes]) and takes what was found
// ([Succession.Probed], [Succession.Heard]). Times are those of any clock that counts sleep.
//
//   - Whoever takes a VIP from a machine that is gone, or that gives it up, answers at once.
//   - A VIP of which nothing is known is looked for on the wire first: what another machine answers for
//     stays its own. So a machine that begins, or was cut off, takes nothing back.
//   - A machine that others follow answers on until it hears them, so that somebody answers at every instant.
//   - Without a majority a machine answers only for what nobody else was just seen to answer for.
type Succession struct {
	vips       map[netip.Addr]*tenure
	remembered map[netip.Addr]bool // what the process before this one answered for; empty once that is old
	newborn    bool                // until it could first be said who is there
	self       string              // the machine
	quorum     Quorum
	began      time.Duration      // the first step was
	resumed    time.Duration      // as the segment said last
	lost       map[string]absence // machines that are down, or were a moment ago
	active     []string
	before     []string      // active until lately
	edited     time.Duration // when active became what it is
}

// tenure is where one VIP stands.
type tenure struct {
	able      []string      // machines that can own it, in order
	isNew     bool          // it came while this machine was there, and nobody was known to answer for it yet
	homes     string        // that the incumbent is of
	first     string        // of these; empty: the controller has chosen none
	incumbent string        // who answers, as far as is known; empty: nobody is known to
	up        bool          // the incumbent was seen to be up, and not only to answer
	heir      bool          // the incumbent is to follow another one, and was not heard yet: it may have ended before it did
	unsure    bool          // this machine was cut off: the incumbent may have left the VIP to another one, or to this one
	succeeds  bool          // such an incumbent was there before, so that nobody need be looked for
	claimed   bool          // this machine answers
	had       bool          // it has answered before
	since     time.Duration // when it began to
	until     time.Duration // when it still did, last
	yielding  time.Duration // since when it answers for another one that is to
	rivals    rivals        // that were heard to claim it
	probing   bool
	doubts    int           // looks that have to find nobody else until it answers without any
	missed    int           // looks in a row at which it did not answer
	verified  time.Duration // when the incumbent was looked for last
	free      time.Duration // when it was seen that nobody else answers; 0: it was not
	taken     time.Duration // when somebody else was seen to answer; 0: nobody was
	stranger  bool          // that was a host that is no machine of the segment
}

// NewSuccession returns one of a machine that begins. remembered is what the process before it, a moment ago,
// answered for.
func NewSuccession(remembered []netip.Addr) *Succession {
	s := &Succession{vips: map[netip.Addr]*tenure{}, remembered: map[netip.Addr]bool{}, lost: map[string]absence{}, newborn: true}
	for _, vip := range remembered {
		s.remembered[vip] = true
	}
	return s
}

// Step is what a machine is to do on a segment.
type Step struct {
	Claims []netip.Addr  // to answer for, sorted
	Probes []netip.Addr  // to look for on the wire, once each, sorted
	Again  []netip.Addr  // of the claims, to announce once more, for machines that are back and may not know of them; sorted
	Owners []Owned       // of all VIPs, sorted
	Next   time.Duration // until another step is due; 0: none is by itself
	Quorum Quorum
}

// Owned says who answers for a VIP as this machine sees it, or why this one does not.
type Owned struct {
	VIP   netip.Addr
	Owner string // empty: nobody, or nobody knows
	Next  string // would follow the owner; empty: nobody
	// Auditor looks now and then who answers: the first that can own it and was not heard to claim it lately. Of two
	// machines that do not hear each other each takes itself for the owner. Empty: nobody does.
	Auditor string
	Reason  lb.Reason // why this machine does not answer; empty: it does
}

// Step decides anew. vips are sorted by address.
func (s *Succession) Step(now time.Duration, seg Segment, vips []LinkVIP) Step {
	if s.began == 0 {
		s.began, s.resumed = now, seg.Resumed
	}
	s.self, s.newborn = seg.Self, s.newborn && seg.isNewborn()
	if !s.newborn && now-s.began >= settles {
		clear(s.remembered)
	}
	s.follow(now, &seg)
	q := seg.Quorum()
	if s.quorum == NoQuorum && q != NoQuorum {
		s.forget() // others may have answered meanwhile
	}
	if stoodStill := s.resumed != seg.Resumed; stoodStill || s.quorum == Careful && q == Majority {
		s.doubt(stoodStill)
	}
	s.quorum, s.resumed = q, seg.Resumed
	out := Step{Quorum: q}
	if len(seg.Before) > 0 {
		out.wake(s.edited + joint - now)
	}
	apart := s.apart(now, seg)
	known := make(map[netip.Addr]*tenure, len(vips))
	for _, v := range vips {
		t := s.vips[v.VIP]
		if t == nil {
			t = &tenure{isNew: !s.newborn && now-s.began >= settles, rivals: rivals{}}
			if s.remembered[v.VIP] {
				t.incumbent = seg.Self
			}
		}
		known[v.VIP] = t
		o := s.decide(now, seg, v, t, &out)
		o.VIP = v.VIP
		if o.Owner != "" {
			o.Next, o.Auditor = t.next(o.Owner), t.auditor(now, o.Owner, seg.Self)
		}
		out.Owners = append(out.Owners, o)
		if t.claimed {
			out.Claims = append(out.Claims, v.VIP)
			if apart != 0 && t.since >= apart {
				out.Again = append(out.Again, v.VIP)
			}
		}
	}
	s.vips = known
	return out
}

func (o *Step) wake(in time.Duration) {
	if in = max(in, 1); o.Next == 0 || in < o.Next {
		o.Next = in
	}
}

// follow takes in who is active, and for how long those count that were before.
func (s *Succession) follow(now time.Duration, seg *Segment) {
	var active []string
	for _, m := range seg.Machines {
		if m.Active {
			active = append(active, m.Name)
		}
	}
	if !slices.Equal(active, s.active) {
		s.before, s.active, s.edited = s.active, active, now
	}
	if now-s.edited < joint {
		seg.Before = s.before
	}
}

// absence is since when a machine is down, and is up again; 0: it is not.
type absence struct{ since, back time.Duration }

// apart is since when machines that are up again were down, the earliest; 0: there are none. They may not
// have heard what this machine claimed meanwhile, nor what it tells one that is soon down again.
func (s *Succession) apart(now time.Duration, seg Segment) (since time.Duration) {
	for _, m := range seg.Machines {
		was, known := s.lost[m.Name]
		if known && was.back > 0 && now-was.back >= yields {
			delete(s.lost, m.Name)
			known = false
		}
		switch {
		case m.Standing == Down && !known:
			s.lost[m.Name] = absence{since: now}
		case m.Standing == Down:
			s.lost[m.Name] = absence{since: was.since}
		case m.Standing == Up && known && was.back == 0:
			s.lost[m.Name] = absence{was.since, now}
			if since == 0 || was.since < since {
				since = was.since
			}
		}
	}
	return since
}

// forget drops what is known of who answers, but for this machine's own claims, and those of the process
// before. What it had last it looks for on the wire, and takes where nobody else has it.
func (s *Succession) forget() {
	for vip, t := range s.vips {
		if !t.claimed && !s.remembered[vip] {
			if t.incumbent != s.self {
				t.incumbent = ""
			}
			t.succeeds = false
			t.suspect()
		}
	}
}

// doubt has this machine look once more whether the others answer for what it has answered for, and for what it has left
// to them: it did so without a majority, which it sees again, or stood still. Until now they could not hear each other.
// What others claimed while it stood still it does not insist on.
func (s *Succession) doubt(stoodStill bool) {
	for _, t := range s.vips {
		if stoodStill {
			t.rivals.giveWay()
		}
		if !t.claimed {
			t.suspect()
			continue
		}
		t.doubts = 1
		if t.probing {
			t.doubts = 2 // that look began before
		}
	}
}

// decide is one VIP's part of a step.
func (s *Succession) decide(now time.Duration, seg Segment, v LinkVIP, t *tenure, out *Step) Owned {
	t.able = slices.DeleteFunc(v.order(seg), func(name string) bool { return !seg.canOwn(v, name, name) })
	if homes := strings.Join(v.Homes, ","); homes != t.homes {
		had := t.homes != ""
		t.homes = homes
		if t.first, _, _ = strings.Cut(homes, ","); t.incumbent != "" && t.first != t.incumbent && had {
			t.succeeds, t.incumbent = true, "" // the controller moves it
		}
	}
	t.isNew = t.isNew && t.incumbent == ""
	if moves := t.succeeds && t.incumbent == ""; t.isNew || t.heir || moves {
		seg = seg.answering()
	}
	owner, none := seg.Owner(v, t.incumbent)
	if owner == "" && seg.Lingers && (t.claimed || s.remembered[v.VIP]) && seg.serves(v, seg.Self) {
		owner = seg.Self
	}
	switch {
	case owner == "":
		t.release()
		return Owned{Reason: none}
	case s.quorum == NoQuorum && !(s.newborn && s.remembered[v.VIP]):
		t.release()
		return Owned{Reason: s.lonely(seg)}
	case owner != seg.Self:
		return s.leaveTo(now, owner, seg, v, t, out)
	}
	if t.incumbent != "" && t.incumbent != seg.Self {
		t.succeeds = t.succeeds || t.up && !t.unsure
		if m, _ := seg.machine(t.incumbent); m.Standing == Up && seg.canOwn(v, t.incumbent, t.incumbent) {
			t.succeeds, t.up = true, true // the VIP is pinned to this machine: the other one waits to hear it
		}
		if t.up {
			t.taken = 0 // which was when it was seen to answer
		}
	}
	if reason := s.claim(now, seg, v.VIP, t, out); reason != "" {
		return Owned{Reason: reason}
	}
	return Owned{Owner: seg.Self}
}

// lonely is why a machine without a quorum answers for nothing.
func (s *Succession) lonely(seg Segment) lb.Reason {
	if seg.Witness == WitnessSilent && !s.newborn {
		return lb.WitnessSilent
	}
	return lb.NoMajority
}

func (t *tenure) release() {
	t.claimed, t.yielding, t.free, t.succeeds, t.doubts = false, 0, 0, false, 0
	t.rivals.giveWay()
}

// leaveTo has another machine own a VIP. What this one answers for it goes on to answer for until
// it hears or finds the other. One that can serve it no more waits for so long at most, unless it lingers; one that
// can has it again where the other does not take it.
func (s *Succession) leaveTo(now time.Duration, owner string, seg Segment, v LinkVIP, t *tenure, out *Step) Owned {
	if owner != t.incumbent {
		if t.heir = t.incumbent != "" || t.succeeds; t.heir {
			t.verified, t.missed = now-verifies+verifiesAgain+seg.turn(), 0
		}
	}
	t.incumbent, t.up = owner, true
	if t.claimed && t.yielding == 0 {
		t.yielding, t.free = now, 0
	}
	late, serves := now-t.yielding >= yields, seg.serves(v, seg.Self)
	heard, rival := t.rivals.claims(now, owner), t.rivals[owner]
	both := heard && rival.insists != 0 && t.yielding-rival.insists < careful // neither has given way yet
	if t.claimed && (late && !seg.Lingers && !serves || both || heard && rival.heard >= t.yielding) {
		t.release()
	}
	switch {
	case t.claimed && serves && !seg.Lingers && now-t.yielding >= resigns:
		t.yielding = 0
		t.take(now, seg.Self)
		return Owned{Owner: seg.Self}
	case t.claimed && (late || heard): // it may have given way since
		if now-t.free >= careful {
			t.probe(v.VIP, out)
		}
		out.wake(careful)
	case t.claimed:
		out.wake(t.yielding + yields - now)
	}
	switch has, _ := seg.machine(owner); {
	case has.Standing != Up && !t.unsure:
		t.verified, t.missed = 0, 0 // its agent is away, and once it is back it has time to take up what it had
	case !t.claimed && len(t.able) > 0 && !s.newborn && (t.able[0] == seg.Self || t.unsure || t.heir):
		t.verify(now, v.VIP, out)
	}
	return Owned{Owner: owner, Reason: lb.NotOwner}
}

// suspect has it looked at once whether the owner answers, once one is known.
func (t *tenure) suspect() { t.unsure, t.missed, t.verified = true, 0, 0 }

// verify looks now and then whether the incumbent answers; at once where it may not know that it is to.
func (t *tenure) verify(now time.Duration, vip netip.Addr, out *Step) {
	if t.verified == 0 {
		t.verified = now
		if t.unsure {
			t.verified -= verifies
		}
	}
	if now-t.verified >= verifies {
		t.verified = now
		t.probe(vip, out)
	}
	out.wake(t.verified + verifies - now)
}

// claim has this machine own a VIP; the reason says why it does not answer yet.
func (s *Succession) claim(now time.Duration, seg Segment, vip netip.Addr, t *tenure, out *Step) lb.Reason {
	t.yielding = 0
	switch {
	case t.taken != 0 && now-t.taken < t.leaveAlone():
		out.wake(t.taken + t.leaveAlone() - now)
		return t.takenBy()
	case s.quorum == Majority && !s.newborn && (t.claimed && (t.doubts == 0 || t.rivals.insists()) || t.succeeds):
		t.take(now, seg.Self)
		if t.rivals.insists() { // until nobody else has answered for a while: what is said once may be lost, or come before the rival is up
			t.probe(vip, out)
		}
		return ""
	case s.newborn && !s.remembered[vip]:
		return lb.NoMajority
	case now-s.began < settles && !s.remembered[vip] && !t.had && !t.succeeds && t.first != "" && t.first != seg.Self:
		out.wake(s.began + settles - now)
		return lb.NotOwner
	}
	// It has to be seen first that nobody else answers, and by a careful one again and again.
	fresh := t.free != 0 && now-t.free < trust
	if again := t.free + careful - now; t.free == 0 || again <= 0 || t.doubts > 0 {
		t.probe(vip, out)
	} else if s.quorum != Majority {
		out.wake(again)
	}
	if !fresh {
		t.claimed = false
		return lb.NoMajority
	}
	out.wake(t.free + trust - now)
	t.take(now, seg.Self)
	return ""
}

func (t *tenure) leaveAlone() time.Duration {
	if t.stranger {
		return aside
	}
	return careful
}

func (t *tenure) takenBy() lb.Reason {
	if t.stranger {
		return lb.AddressConflict
	}
	return lb.AnsweredByOther
}

func (t *tenure) take(now time.Duration, self string) {
	if !t.claimed {
		t.since = now
	}
	t.claimed, t.had, t.succeeds, t.unsure, t.heir, t.incumbent = true, true, false, false, false, self
	t.until = now
}

func (t *tenure) probe(vip netip.Addr, out *Step) {
	if !t.probing {
		t.probing = true
		out.Probes = append(out.Probes, vip)
	}
}

// Found is who answered a probe.
type Found struct {
	Machine  string // of the segment; empty: none
	Stranger bool   // a host that is no machine of the segment
	Failed   bool   // nothing could be sent, so nothing was found out
}

// Probed takes what a probe found, and reports as [Succession.Heard] does.
func (s *Succession) Probed(now time.Duration, vip netip.Addr, found Found) (again bool) {
	t := s.vips[vip]
	if t == nil {
		return false
	}
	t.probing, t.taken = false, 0
	switch {
	case found.Failed:
	case found.Machine != "" && t.claimed && s.quorum == Majority: // both look, and one has to go on
		t.free, t.doubts = now, max(0, t.doubts-1)
		return s.Heard(now, vip, found.Machine)
	case found.Stranger, found.Machine != "":
		t.release()
		t.missed, t.unsure = 0, false
		t.taken, t.stranger = now, found.Stranger
		if found.Machine != "" && t.had && now-t.until < yields {
			t.missed, t.unsure, t.verified = 1, true, 0 // it may have heard this one meanwhile, and leave the VIP to it
		}
		if found.Machine != "" {
			t.incumbent, t.up, t.heir = found.Machine, false, false
		}
	case !t.claimed && t.incumbent != "" && t.incumbent != s.self && t.up && t.missed == 0:
		t.missed, t.verified = 1, now-verifies+verifiesAgain // its agent may have ended a moment ago
	case !t.claimed && t.incumbent != "" && t.incumbent != s.self:
		t.missed, t.unsure = 0, false
		t.incumbent, t.up, t.free = s.self, false, now // whoever it was does not answer: whoever looked has it, if it can
	default:
		t.free, t.doubts = now, max(0, t.doubts-1)
		if t.rivals.silent(now) { // not before: one look may have been lost
			t.rivals.giveWay()
		}
	}
	return false
}

// Heard takes in that another machine was heard to claim a VIP, and reports whether this one is
// to announce its own claim again. Of two that claim one the earlier in the order has it, of those that
// can own it, but for what this machine was to give up. Two that go on are of different minds about that
// order: then the first by name has it. A majority gives way to no machine that is down: what it says may be heard,
// but it hears nothing.
func (s *Succession) Heard(now time.Duration, vip netip.Addr, machine string) (again bool) {
	t := s.vips[vip]
	if t == nil {
		return false
	}
	t.heir = t.heir && machine != t.incumbent
	other, self := slices.Index(t.able, machine), slices.Index(t.able, t.incumbent)
	insist := t.claimed && t.yielding == 0 && (other < 0 || self >= 0 && self < other)
	gone := s.quorum == Majority && s.lost[machine].since != 0 && s.lost[machine].back == 0 // it cannot hear this one
	if since := t.rivals.hear(now, machine, insist); insist && (now-since < yields || s.self < machine || gone) {
		return true
	}
	succeeds := t.succeeds && !t.claimed // it takes the VIP from whoever was heard
	t.release()
	if t.succeeds = succeeds; other >= 0 && !succeeds {
		t.incumbent, t.up, t.heir = machine, false, false
		t.unsure, t.missed = false, 0
	}
	return false
}
