package advertise

import "plinth.dev/plinth/lb"

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

// watch probes now and then whether the owner answers, which is one of those that are able to own the VIP.
func (d *decision) watch(owner string) {
	other, _ := d.seg.machine(owner)
	switch {
	case other.Standing != Up && !d.incumbent.unsure:
		d.incumbent.missed, d.incumbent.verified = false, 0 // its agent is away, and once it is back it has time to take up what it had
	case !d.phase.answers() && !d.newborn && (d.able[0] == d.seg.Self || d.incumbent.unsure || d.incumbent.heir):
		if d.incumbent.isDue(d.now) {
			d.startProbe()
		}
		d.wakeAt(d.incumbent.verified + verifies)
	}
}
