package onlink

import (
	"net/netip"
	"slices"
	"time"
)

// machine is another machine of the link, as its kernel answers.
type machine struct {
	macs     map[MAC]time.Duration // when each answered last
	attempts int                   // since the last answer
	due      time.Duration         // when to ask
}

const (
	// macRefresh is the interval at which a machine is asked whether it still has its MAC.
	macRefresh = time.Minute
	// macForgotten is after how long a MAC of a machine that answers by another is a
	// stranger's. Machines with two interfaces in one LAN may answer by both.
	macForgotten = 5 * time.Minute
	// machineRetry is the interval at which a machine without a MAC is asked at first.
	machineRetry = time.Second
	fastRetries  = 3
)

// setMachines makes these the other machines. New ones are asked for their MACs at once.
func (l *link) setMachines(addrs []netip.Addr, now time.Duration) {
	for addr := range l.machines {
		if !slices.Contains(addrs, addr) {
			delete(l.machines, addr)
		}
	}
	for _, addr := range addrs {
		if l.machines[addr] == nil {
			l.machines[addr] = &machine{macs: map[MAC]time.Duration{}, due: now}
		}
	}
}

// askMachine asks a machine for its MAC if that is due, and returns when it is next. One
// whose MAC is known is asked alone, so that no other host is disturbed.
func (l *link) askMachine(addr netip.Addr, now time.Duration) time.Duration {
	machine := l.machines[addr]
	if now < machine.due {
		return machine.due
	}
	known := MAC{}
	if machine.attempts == 0 {
		known = machine.latest()
	}
	l.send(question(l.on.mac, l.config.Self, addr, known))
	machine.attempts++
	machine.due = now + machineRetry
	if machine.attempts > fastRetries {
		machine.due = now + macRefresh
	}
	return machine.due
}

// latest is the MAC that answered last; zero: none has.
func (m *machine) latest() (latest MAC) {
	at := time.Duration(-1)
	for mac, answered := range m.macs {
		if answered > at || answered == at && compareMACs(mac, latest) < 0 {
			latest, at = mac, answered
		}
	}
	return latest
}

// learn notes by which MAC a machine answers. What was taken for a stranger may be it.
func (l *link) learn(addr netip.Addr, m *machine, mac MAC, now time.Duration) {
	_, known := m.macs[mac]
	m.macs[mac], m.attempts, m.due = now, 0, now+macRefresh
	for old, answered := range m.macs {
		if now-answered >= macForgotten {
			delete(m.macs, old)
		}
	}
	if known {
		return
	}
	for _, v := range l.vips {
		if v.conflict.MAC == mac {
			heard := Heard{Machine: addr, MAC: mac, At: v.conflict.Last}
			v.conflict, v.tellAt = Conflict{}, 0
			l.hear(v, heard)
		}
	}
}

// isLearning reports whether a machine may still answer for the first time.
func (l *link) isLearning() bool {
	for _, m := range l.machines {
		if len(m.macs) == 0 && m.attempts <= fastRetries {
			return true
		}
	}
	return false
}

// machineWith is the machine that has a MAC.
func (l *link) machineWith(mac MAC) (netip.Addr, bool) {
	for _, addr := range l.config.Machines {
		if _, has := l.machines[addr].macs[mac]; has {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// doubtInterval is the interval at which a stranger has all machines asked again.
const doubtInterval = 10 * time.Second

// doubtMachines asks all machines for their MACs, unless they were asked a moment ago, and reports whether it did: one may have got
// another interface.
func (l *link) doubtMachines(now time.Duration) bool {
	if l.doubted != 0 && now-l.doubted < doubtInterval {
		return false
	}
	l.doubted = now
	for _, m := range l.machines {
		m.attempts, m.due = max(m.attempts, 1), now
	}
	l.nudge()
	return true
}
