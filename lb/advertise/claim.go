package advertise

import (
	"time"

	"plinth.dev/plinth/lb"
)

// claim holds the times at which a machine answers for a VIP.
type claim struct {
	since       time.Duration // the machine began to answer
	until       time.Duration // the machine answered last; 0: it never did
	yielding    time.Duration // the phase began to be yielding
	unconfirmed int           // probes that have to find no other machine until this one answers without any
}

// heldWithin reports whether the machine answered for the VIP within a period.
func (c claim) heldWithin(now, period time.Duration) bool {
	return c.until != 0 && now-c.until < period
}

// own has this machine own the VIP: at once, or when no other one answers.
func (d *decision) own() Owned {
	if d.incumbent.isOther(d.seg.Self) {
		d.replaceIncumbent()
	}
	reason := d.wait()
	if reason == "" && !d.hasRight() {
		reason = d.search()
	}
	if reason != "" {
		d.phase.move(ownerWaits)
		return Owned{Reason: reason}
	}
	d.take(d.now, d.seg.Self)
	return Owned{Owner: d.seg.Self}
}

// replaceIncumbent notes whether this machine succeeds the incumbent, which was up until now, or is and waits to hear it.
func (d *decision) replaceIncumbent() {
	d.succeeds = d.succeeds || d.incumbent.up && !d.incumbent.unsure
	if other, _ := d.seg.machine(d.incumbent.name); other.Standing == Up && d.seg.serves(d.vip, other.Name) {
		d.succeeds, d.incumbent.up = true, true // the VIP is pinned to this machine
	}
	if d.incumbent.up { // the result is of when it was seen to answer
		d.probe.drop(machineAnswers, strangerAnswers)
	}
}

// wait returns the reason why the machine neither answers nor probes; empty: it does.
func (d *decision) wait() lb.Reason {
	alone := leftAlone[d.probe.result]
	switch until := d.probe.at + alone.period; {
	case until > d.now:
		d.wakeAt(until)
		return alone.reason
	case d.newborn && !d.isRemembered:
		return lb.NoMajority
	case d.now-d.began < settles && !d.isRemembered && d.claim.until == 0 && !d.succeeds && len(d.homes) > 0 && d.homes[0] != d.seg.Self:
		d.wakeAt(d.began + settles)
		return lb.NotOwner
	}
	return ""
}

// hasRight reports whether the machine answers without a probe. One that insists probes until no other has
// answered for a while: a single claim may be lost, or come before the rival is up.
func (d *decision) hasRight() bool {
	insists := d.rivals.insists()
	hasRight := d.quorum == Majority && !d.newborn && (d.succeeds || d.phase.answers() && (d.claim.unconfirmed == 0 || insists))
	if hasRight && insists {
		d.startProbe()
	}
	return hasRight
}

// search returns the reason why the machine does not answer yet; empty: a probe has just found that no other machine does. A careful machine probes
// as long as it answers.
func (d *decision) search() lb.Reason {
	if !d.probe.isFree(d.now, careful) || d.claim.unconfirmed > 0 {
		d.startProbe()
	} else if d.quorum != Majority {
		d.wakeAt(d.probe.at + careful)
	}
	if !d.probe.isFree(d.now, trust) {
		return lb.NoMajority
	}
	d.wakeAt(d.probe.at + trust)
	return ""
}
