package advertise

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

const (
	// joint is the time for which the machines that were active before an edit count as well: agents
	// hear of it within seconds.
	joint = time.Minute
	// careful is the interval at which a machine without a majority probes whether it is still the only one that
	// answers, and trust the time for which the result counts.
	careful = time.Second
	trust   = 1500 * time.Millisecond
	// aside is the time for which an address that a foreign host has is left alone before it is probed again.
	aside = 5 * time.Second
	// verifies is the interval at which the first in a VIP's order probes whether the machine answers that has it in its
	// place: two that each take the other for the owner would leave none that answers.
	verifies = 5 * time.Second
	// verifiesAgain is the time after a probe without an answer until it probes once more: by then it is known
	// of a machine whose agent has ended.
	verifiesAgain = time.Second
	// settles is the time for which a machine that begins leaves VIPs that nobody answers for to their first homes,
	// which may begin a moment later: a machine that has a VIP keeps it.
	settles = 15 * time.Second
	// yields is the time for which the next owner of a VIP is waited for while this machine answers on, though it cannot serve
	// it any more. One that can serve it answers on until it hears or finds the other one, and after resigns takes it
	// that the other does not know that it is the owner.
	yields  = 2 * time.Second
	resigns = 10 * time.Second
)

// Succession decides for one machine on one segment on the VIPs that it answers for. It does no I/O and has no clock: a step
// returns the VIPs to be probed ([Step.Probes]), and [Succession.Probed] and [Succession.Heard] observe the results and the
// claims of others. Times are those of any clock that counts sleep.
//
//   - A machine that takes a VIP from one that is gone, or that gives it up, answers at once.
//   - A VIP of which nothing is known is probed first: what another machine answers for
//     stays its own. So a machine that begins, or was cut off, takes nothing back.
//   - A machine that others follow answers on until it hears them, so that some machine answers at every instant.
//   - Without a majority a machine answers only for a VIP that no other was just seen to answer for.
type Succession struct {
	vips       map[netip.Addr]*tenure
	remembered map[netip.Addr]bool // what the process before this one answered for; empty once that is old
	newborn    bool                // until each machine was heard or waited for
	self       string              // the machine
	quorum     Quorum
	began      time.Duration // the first step was
	resumed    time.Duration // as the segment said last
	lost       absences
	active     []string
	before     []string      // active until lately
	edited     time.Duration // when active became what it is
}

// NewSuccession returns the succession of a machine that begins. remembered are the VIPs that the previous process, a moment ago,
// answered for.
func NewSuccession(remembered []netip.Addr) *Succession {
	s := &Succession{vips: map[netip.Addr]*tenure{}, remembered: map[netip.Addr]bool{}, lost: absences{}, newborn: true}
	for _, vip := range remembered {
		s.remembered[vip] = true
	}
	return s
}

// Step holds the actions that are due of a machine on a segment.
type Step struct {
	Claims []netip.Addr  // to answer for, sorted
	Probes []netip.Addr  // to probe on the wire, once each, sorted
	Again  []netip.Addr  // of the claims, to announce once more, for machines that are back and may not know of them; sorted
	Owners []Owned       // of all VIPs, sorted
	Next   time.Duration // until another step is due; 0: none is by itself
	Quorum Quorum
}

// Owned names the owner of a VIP as this machine sees it, or the reason why this one does not answer.
type Owned struct {
	VIP   netip.Addr
	Owner string // empty: none, or it is not known
	Next  string // would follow the owner; empty: none
	// Auditor is the machine that probes the VIP now and then: the first that can own it and was not heard to claim it lately. Of two
	// machines that do not hear each other each takes itself for the owner. Empty: there is none.
	Auditor string
	Reason  lb.Reason // why this machine does not answer; empty: it does
}

// Step decides anew. vips are sorted by address.
func (s *Succession) Step(now time.Duration, seg Segment, vips []LinkVIP) Step {
	s.observe(now, &seg)
	out := Step{Quorum: s.quorum}
	if len(seg.Before) > 0 {
		out.wake(s.edited + joint - now)
	}
	apart := s.lost.observe(now, seg.Machines)
	known := make(map[netip.Addr]*tenure, len(vips))
	for _, vip := range vips {
		current := s.tenureOf(now, vip.VIP)
		known[vip.VIP] = current
		owned := (&decision{s, current, now, seg, vip, s.remembered[vip.VIP], &out}).decide()
		if owned.VIP = vip.VIP; owned.Owner != "" {
			owned.Next, owned.Auditor = current.next(owned.Owner), current.auditor(now, owned.Owner, s.self)
		}
		out.Owners = append(out.Owners, owned)
		if current.phase.answers() {
			out.Claims = append(out.Claims, vip.VIP)
			if apart != 0 && current.claim.since >= apart {
				out.Again = append(out.Again, vip.VIP)
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

// tenureOf returns the tenure of a VIP, or a new one.
func (s *Succession) tenureOf(now time.Duration, vip netip.Addr) *tenure {
	known := s.vips[vip]
	if known == nil {
		known = &tenure{phase: released, isNew: s.isSettled(now), rivals: rivals{}}
		if s.remembered[vip] {
			known.incumbent.name = s.self
		}
	}
	return known
}

// observe updates the segment, and adds to it the machines that were active until lately.
func (s *Succession) observe(now time.Duration, seg *Segment) {
	if s.began == 0 {
		s.began, s.resumed = now, seg.Resumed
	}
	s.self, s.newborn = seg.Self, s.newborn && seg.isNewborn()
	if s.isSettled(now) {
		clear(s.remembered)
	}
	s.observeActive(now, seg)
	before, stoodStill := s.quorum, s.resumed != seg.Resumed
	s.quorum, s.resumed = seg.Quorum(), seg.Resumed
	if before == NoQuorum && s.quorum != NoQuorum {
		s.invalidate() // others may have answered meanwhile
	}
	if stoodStill || before == Careful && s.quorum == Majority {
		s.reprobe(stoodStill)
	}
}

// isSettled reports whether the machine has been there for long enough to know the others.
func (s *Succession) isSettled(now time.Duration) bool { return !s.newborn && now-s.began >= settles }

// observeActive updates the active machines, and the time for which the former ones count.
func (s *Succession) observeActive(now time.Duration, seg *Segment) {
	active := seg.names(func(m Neighbor) bool { return m.Active })
	if !slices.Equal(active, s.active) {
		s.before, s.active, s.edited = s.active, active, now
	}
	if now-s.edited < joint {
		seg.Before = s.before
	}
}

// lonely returns the reason why a machine without a quorum answers for nothing.
func (s *Succession) lonely(seg Segment) lb.Reason {
	if seg.Witness == WitnessSilent && !s.newborn {
		return lb.WitnessSilent
	}
	return lb.NoMajority
}

// invalidate drops what is known of incumbents, but for this machine's own claims, and those of the process
// before. It probes the VIPs that it had last, and takes those that no other machine has.
func (s *Succession) invalidate() {
	for vip, tenure := range s.vips {
		if !tenure.phase.answers() && !s.remembered[vip] {
			if tenure.incumbent.isOther(s.self) {
				tenure.incumbent.name = ""
			}
			tenure.succeeds = false
			tenure.incumbent.suspect()
		}
	}
}

// reprobe has this machine probe once more whether others answer for the VIPs that it has answered for, and for those that it
// has left to them: it did so without a majority, which it sees again, or stood still. Until now they could not hear each other.
// It does not insist on VIPs that others claimed while it stood still, and it succeeds none of which it knew before.
func (s *Succession) reprobe(stoodStill bool) {
	for _, tenure := range s.vips {
		if stoodStill {
			tenure.rivals.giveWay()
			tenure.succeeds = false
		}
		if !tenure.phase.answers() {
			tenure.incumbent.suspect()
		} else if tenure.claim.unconfirmed = 1; tenure.probe.isRunning {
			tenure.claim.unconfirmed = 2 // that probe began before
		}
	}
}
