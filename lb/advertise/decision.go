package advertise

import (
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// decision is one VIP's part of a step: the state of the machine and of the VIP, and the segment as it is now.
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

// decide has the tenure enter its next phase, and reports the owner.
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

// startProbe has the VIP be probed, once at a time.
func (d *decision) startProbe() {
	if !d.probe.isRunning {
		d.probe.isRunning = true
		d.out.Probes = append(d.out.Probes, d.vip.VIP)
	}
}

// wakeAt has another step be due at a time.
func (d *decision) wakeAt(at time.Duration) { d.out.wake(at - d.now) }
