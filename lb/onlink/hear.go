package onlink

import (
	"net/netip"
	"time"
)

const (
	// defendInterval is the time for which a claim is not defended again (RFC 5227, section 2.1.1).
	defendInterval = 10 * time.Second
	// recheckInterval is the interval at which a stranger is asked whether it still has a claim.
	recheckInterval = 10 * time.Second
	// conflictEnds is after how much silence of the stranger a conflict is over.
	conflictEnds = 35 * time.Second
	// suspicion is the time for which a stranger may turn out to be a machine whose MAC is being learned.
	suspicion = 300 * time.Millisecond
	// notifyInterval is the interval at which a claim that is heard again is told.
	notifyInterval = time.Second
)

// onAssertion observes a frame of another host that says to have an address.
func (l *link) onAssertion(packet packet, now time.Duration) {
	for w := range l.waiting {
		w.take(packet)
	}
	if m := l.machines[packet.asserts]; m != nil && packet.answers {
		l.learn(packet.asserts, m, packet.mac, now)
	}
	vip := l.vips[packet.asserts]
	if vip == nil {
		return
	}
	if machine, known := l.machineWith(packet.mac); known {
		l.hear(vip, Heard{Machine: machine, MAC: packet.mac, At: now})
		return
	}
	if vip.claimed {
		l.onStranger(packet, vip, now)
	}
}

// hear notes that another machine claims the address.
func (l *link) hear(v *vip, h Heard) {
	news := v.heard.Machine != h.Machine || h.At-v.notified >= notifyInterval
	v.heard = h
	if news {
		v.notified = h.At
		l.responder.notify()
	}
}

// onStranger notes a conflict. While a machine has not had the time to answer by which MAC it
// is known, the stranger may be that machine: the conflict is told a moment later then.
func (l *link) onStranger(packet packet, vip *vip, now time.Duration) {
	first := vip.conflict.MAC == MAC{}
	if first {
		vip.conflict.Since = now
		if l.isLearning() {
			vip.tellAt = now + suspicion
			l.nudge()
		}
	}
	vip.conflict.MAC, vip.conflict.Last = packet.mac, now
	if vip.tellAt != 0 {
		return
	}
	if first || vip.named != packet.mac && now-vip.notified >= notifyInterval {
		l.tell(packet.asserts, vip, now)
	}
	l.defend(packet.asserts, vip, now)
}

// tell names the stranger.
func (l *link) tell(addr netip.Addr, v *vip, now time.Duration) {
	v.tellAt, v.notified, v.named = 0, now, v.conflict.MAC
	l.responder.notify()
	l.log.Info("detected another host that claims the address", "address", addr.String(), "mac", v.conflict.MAC.String())
	l.doubtMachines(now)
}

// defend announces a claim against a stranger, not too often: two that fight leave no client
// with a connection (RFC 5227, section 2.4).
func (l *link) defend(addr netip.Addr, v *vip, now time.Duration) {
	if v.defended != 0 && now-v.defended < defendInterval || !l.mayAnswer(now) {
		return
	}
	v.defended = now
	l.send(announcement(l.on.mac, addr))
}

// recheck asks for the stranger that has a claim that is in conflict, and ends the conflict when none
// answers any more. It returns when to look again.
func (l *link) recheck(addr netip.Addr, vip *vip, now time.Duration) time.Duration {
	conflict := &vip.conflict
	if conflict.MAC == (MAC{}) {
		return never
	}
	if vip.tellAt != 0 {
		if now < vip.tellAt {
			return vip.tellAt
		}
		l.tell(addr, vip, now)
		l.defend(addr, vip, now)
	}
	if now-conflict.Last >= conflictEnds {
		l.log.Info("resolved the conflict of the address", "address", addr.String(), "mac", conflict.MAC.String())
		*conflict = Conflict{}
		l.responder.notify()
		return never
	}
	if now >= vip.recheckAt {
		vip.recheckAt = now + recheckInterval
		l.send(question(l.on.mac, l.config.Self, addr, MAC{}))
	}
	return min(vip.recheckAt, conflict.Last+conflictEnds)
}
