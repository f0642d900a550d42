package mesh

import "time"

// evidence determines the deadline until which this process may act on what it knows. Times are on the clock of
// package uptime.
//
// A process that was stopped and goes on finds requests in its queues, and sessions that look
// up to it. What it may count on is only what it cannot have slept through:
//
//   - A packet of a peer that hears this machine, by the time at which the kernel received it,
//     not that at which it was read. The peer takes over what this machine has no earlier than
//     a detection time after it last heard it, and says "up" no longer then. So a detection
//     time after such a packet no peer can have taken over, and packets that wait in the socket
//     from before the stop prove nothing later.
//   - With no session up there is no peer to hear from. This machine's standing is then the one that the
//     caller was told, and it decides by that and by the witness. The deadline goes on with the
//     loop, once the caller has read the state that says so: one that hangs is not trusted on.
//     After a pause of the loop a running peer has to be given a second to say that it is there
//     (RFC 5880, section 6.8.3), unless the witness has been asked, and answered, since.
//
// Others may have taken VIPs since that the process had before it was stopped. So until the caller has acted on a state
// that says that the process was stopped, nothing counts at all, whatever its sessions have heard by then: it would answer, and
// announce, by what it knew before.
//
// A machine that has no others in its configuration has no peer that could take over, and its
// deadline goes on with its loop.
type evidence struct {
	detection time.Duration
	alone     bool
	lastUp    time.Duration // when the kernel received the last packet of a peer that hears us
	anyUp     bool
	read      bool          // the caller has the latest state
	tick      time.Duration // the loop's last
	resumed   time.Duration // when the loop last went on after a pause
	acted     time.Duration // of these, the last that the caller has acted on
	witness   time.Duration // when the last ask of the witness began that was answered
}

// observe is a turn of the loop, and reports whether the process stood still before it.
func (e *evidence) observe(now time.Duration) (resumed bool) {
	if resumed = e.tick == 0 || now-e.tick > e.detection; resumed {
		e.resumed = now
	}
	e.tick = now
	return resumed
}

// hasJustResumed reports whether the process stood still until a moment ago: its sessions time out one
// after the other, and are up again as soon as the peers are heard, so none of that says that
// a machine is gone.
func (e *evidence) hasJustResumed(now time.Duration) bool { return now-e.resumed < e.detection }

// isActedOn reports whether the caller knows of the last pause of the loop, and whether there has been none since its last turn.
func (e *evidence) isActedOn(now time.Duration) bool {
	return e.resumed <= e.acted && now-e.tick <= e.detection
}

// until is the deadline.
func (e *evidence) until() time.Duration {
	heard := time.Duration(0)
	if e.lastUp != 0 {
		heard = e.lastUp + e.detection
	}
	steady := e.tick-e.resumed >= slowInterval || e.witness > e.resumed
	if e.alone || !e.anyUp && e.read && steady {
		return max(heard, e.tick+e.detection)
	}
	return heard
}
