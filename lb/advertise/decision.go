package advertise

import (
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// decision is one VIP's part of a step: what the succession and the tenure hold, and what is so now.
type decision struct {
	*Succession
	*tenure
	now time.Duration
	seg Segment
	vip LinkVIP
	// isRemembered: the process before this one answered for the VIP.
	isRemembered bool
	out          *Step
}

// decide moves the tenure to its next phase.
func (d *decision) decide() Owned {
	d.able = slices.DeleteFunc(d.vip.order(d.seg), func(name string) bool { return !d.seg.canOwn(d.vip, name, name) })
	d.observeHomes(d.vip.Homes)
	d.isNew = d.isNew && d.incumbent.name == ""
	if d.isNew || d.incumbent.heir || d.succeeds && d.incumbent.name == "" {
		d.seg = d.seg.answering()
	}
	switch owner, none := d.owner(); owner {
	case "":
		d.release()
		return Owned{Reason: none}
	case d.seg.Self:
		return d.own()
	default:
		return d.leaveTo(owner)
	}
}

// owner is the machine that is to own the VIP, or why none is.
func (d *decision) owner() (owner string, none lb.Reason) {
	owner, none = d.seg.Owner(d.vip, d.incumbent.name)
	if owner == "" && d.seg.Lingers && (d.phase.answers() || d.isRemembered) && d.seg.serves(d.vip, d.seg.Self) {
		owner = d.seg.Self
	}
	if owner != "" && d.quorum == NoQuorum && !(d.newborn && d.isRemembered) {
		return "", d.lonely(d.seg)
	}
	return owner, none
}

// own has this machine own the VIP, at once or once nobody else answers.
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

// replaceIncumbent notes whether this machine succeeds another one, which was up or waits to hear it.
func (d *decision) replaceIncumbent() {
	d.succeeds = d.succeeds || d.incumbent.up && !d.incumbent.unsure
	if other, _ := d.seg.machine(d.incumbent.name); other.Standing == Up && d.seg.serves(d.vip, other.Name) {
		d.succeeds, d.incumbent.up = true, true // the VIP is pinned to this machine
	}
	if d.incumbent.up { // the result is of when it was seen to answer
		d.probe.drop(machineAnswers, strangerAnswers)
	}
}

// wait is why the machine neither answers nor probes; empty: it does.
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

// hasRight reports whether the machine answers without a probe. One that insists probes until nobody else has
// answered for a while: what is said once may be lost, or come before the rival is up.
func (d *decision) hasRight() bool {
	insists := d.rivals.insists()
	hasRight := d.quorum == Majority && !d.newborn && (d.succeeds || d.phase.answers() && (d.claim.unconfirmed == 0 || insists))
	if hasRight && insists {
		d.startProbe()
	}
	return hasRight
}

// search is why the machine does not answer yet; empty: a probe has just found that nobody else does. A careful machine probes
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

// leaveTo has another machine own the VIP.
func (d *decision) leaveTo(owner string) Owned {
	d.incumbent.assume(owner, d.succeeds, d.now-verifies+verifiesAgain+d.seg.turn())
	if d.phase == owning {
		d.claim.yielding = d.now
		d.probe.drop(nobodyAnswers)
	}
	if d.phase.move(otherOwns); d.phase == yielding && d.takesBack(owner) {
		d.take(d.now, d.seg.Self)
		return Owned{Owner: d.seg.Self}
	}
	d.watch(owner)
	return Owned{Owner: owner, Reason: lb.NotOwner}
}

// takesBack reports whether the machine owns the VIP again, since the owner does not take it. Until the owner is heard or
// found the machine answers on: where it can serve the VIP no more, for the time of yields at most, unless it lingers.
func (d *decision) takesBack(owner string) bool {
	since, serves := d.claim.yielding, d.seg.serves(d.vip, d.seg.Self)
	isLate := d.now-since >= yields
	switch {
	case isLate && !d.seg.Lingers && !serves, d.rivals.hasTaken(d.now, owner, since):
		d.release()
		d.phase.move(otherOwns)
	case serves && !d.seg.Lingers && d.now-since >= resigns:
		return true
	case isLate, d.rivals.claims(d.now, owner, yields): // it may have given way since
		if !d.probe.isFree(d.now, careful) {
			d.startProbe()
		}
		d.wakeAt(d.now + careful)
	default:
		d.wakeAt(since + yields)
	}
	return false
}

// watch probes now and then whether the owner answers.
func (d *decision) watch(owner string) {
	other, _ := d.seg.machine(owner)
	switch {
	case other.Standing != Up && !d.incumbent.unsure:
		d.incumbent.missed, d.incumbent.verified = false, 0 // its agent is away, and once it is back it has time to take up what it had
	case !d.phase.answers() && len(d.able) > 0 && !d.newborn && (d.able[0] == d.seg.Self || d.incumbent.unsure || d.incumbent.heir):
		if d.incumbent.isDue(d.now) {
			d.startProbe()
		}
		d.wakeAt(d.incumbent.verified + verifies)
	}
}

// startProbe has the VIP be probed, once at a time.
func (d *decision) startProbe() {
	if !d.probe.isRunning {
		d.probe.isRunning = true
		d.out.Probes = append(d.out.Probes, d.vip.VIP)
	}
}

// wakeAt has another step be due at a time.
func (d *decision) wakeAt(at time.Duration) { d.out.wake(at - d.now) }
