package advertise

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// probe is the last probe of a VIP on the wire, and its result.
type probe struct {
	isRunning bool
	result    probeResult
	at        time.Duration // of the result
}

// probeResult is the result of a probe.
type probeResult int

// The results. The zero value is that of a VIP that was not probed, or whose last result counts no more.
const (
	noResult probeResult = iota
	nobodyAnswers
	machineAnswers
	strangerAnswers
)

// leftAlone holds the time for which a VIP that another host answers for is left alone, and the reason.
var leftAlone = map[probeResult]struct {
	period time.Duration
	reason lb.Reason
}{
	machineAnswers:  {careful, lb.AnsweredByOther},
	strangerAnswers: {aside, lb.AddressConflict},
}

// isFree reports whether no other host was seen to answer within a period.
func (p *probe) isFree(now, period time.Duration) bool {
	return p.result == nobodyAnswers && now-p.at < period
}

// drop invalidates a result of these kinds.
func (p *probe) drop(results ...probeResult) {
	if slices.Contains(results, p.result) {
		p.result = noResult
	}
}

// Found is the machine or host that answered a probe.
type Found struct {
	Machine  string // of the segment; empty: none
	Stranger bool   // a host that is no machine of the segment
	Failed   bool   // nothing could be sent, so nothing was found out
}

// Probed observes the result of a probe, and reports as [Succession.Heard] does.
func (s *Succession) Probed(now time.Duration, vip netip.Addr, found Found) (announce bool) {
	tenure := s.vips[vip]
	if tenure == nil {
		return false
	}
	tenure.probe.isRunning = false
	tenure.probe.drop(machineAnswers, strangerAnswers)
	switch {
	case found.Failed:
	case found.Machine != "" && tenure.phase.answers() && s.quorum == Majority: // both probe, and one has to go on
		tenure.confirm(now)
		return s.Heard(now, vip, found.Machine)
	case found.Stranger, found.Machine != "":
		tenure.giveWayTo(found, now)
	case !tenure.phase.answers() && tenure.incumbent.isOther(s.self):
		tenure.missIncumbent(now, s.self)
	default:
		tenure.confirm(now)
		if tenure.rivals.silent(now) { // not before: one probe may have been lost
			tenure.rivals.giveWay()
		}
	}
	return false
}

// giveWayTo releases the VIP to the machine or host that a probe found.
func (t *tenure) giveWayTo(found Found, now time.Duration) {
	t.release()
	t.incumbent.confirm()
	t.probe = probe{result: machineAnswers, at: now}
	if found.Stranger {
		t.probe.result = strangerAnswers
	}
	if found.Machine != "" {
		if t.claim.heldWithin(now, yields) { // the other one may have heard this one meanwhile, and leave the VIP to it
			t.incumbent.unsure, t.incumbent.missed, t.incumbent.verified = true, true, 0
		}
		t.incumbent.answered(found.Machine)
	}
}

// missIncumbent notes that the incumbent did not answer a probe. The agent of one that is up may have ended a moment ago: it is
// probed once more.
func (t *tenure) missIncumbent(now time.Duration, self string) {
	if t.incumbent.up && !t.incumbent.missed {
		t.incumbent.missed, t.incumbent.verified = true, now-verifies+verifiesAgain
		return
	}
	t.incumbent.confirm()
	t.incumbent.name, t.incumbent.up = self, false // the machine that probed has the VIP, if it can
	t.probe.result, t.probe.at = nobodyAnswers, now
}

// Heard observes that another machine was heard to claim a VIP, and reports whether this one is
// to announce its own claim again. Of two that claim one the earlier in the order has it, of those that
// can own it, but for what this machine was to give up. Two that go on are of different minds about that
// order: then the first by name has it. A majority gives way to no machine that is down: its claims may be heard,
// but it hears nothing.
func (s *Succession) Heard(now time.Duration, vip netip.Addr, machine string) (announce bool) {
	tenure := s.vips[vip]
	if tenure == nil {
		return false
	}
	tenure.incumbent.heir = tenure.incumbent.heir && machine != tenure.incumbent.name
	insist := tenure.phase == owning && tenure.precedes(machine)
	if since := tenure.rivals.hear(now, machine, insist); insist && (now-since < yields || s.self < machine || s.quorum == Majority && s.lost.isDown(machine)) {
		return true
	}
	succeeds := tenure.succeeds && !tenure.phase.answers() // it takes the VIP from the machine that was heard
	tenure.release()
	if tenure.succeeds = succeeds; !succeeds && slices.Contains(tenure.able, machine) {
		tenure.incumbent.answered(machine)
		tenure.incumbent.confirm()
	}
	return false
}
