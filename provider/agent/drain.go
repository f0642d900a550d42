package agent

import "time"

// drain is where the machine is between announcing and not: announced with the
// GRACEFUL_SHUTDOWN community first (RFC 8326), so that routers move flows away
// while they still arrive, then withdrawn.
type drain struct {
	time  time.Duration // between the two
	since time.Time     // it began; zero: it has not
	asked bool          // by a signal, not by the inventory
	known bool          // how far the process before this one had come
}

// phase is what is announced at the moment.
type phase struct {
	Draining, Withdrawn bool
	next                time.Duration // until the phase ends; 0: it does not by itself
}

// resume goes on where the process before this one was.
func (d *drain) resume(now time.Time, drained time.Duration) {
	d.known = true
	if drained >= 0 {
		d.since = now.Add(-drained)
	}
}

// lasted is how long the drain has, and negative where there is none.
func (d *drain) lasted(now time.Time) time.Duration {
	if d.since.IsZero() {
		return -1
	}
	return max(0, now.Sub(d.since))
}

// at returns the phase. A machine that was in maintenance already when the agent
// started (first) has nothing announced that could be moved away, unless routers
// still hold what the process before this one announced.
func (d *drain) at(now time.Time, maintenance, first bool) phase {
	if !maintenance && !d.asked {
		d.since = time.Time{}
		return phase{}
	}
	if d.since.IsZero() {
		d.since = now
		if first && !d.known {
			d.since = now.Add(-d.time)
		}
	}
	if left := d.time - now.Sub(d.since); left > 0 {
		return phase{Draining: true, next: left}
	}
	return phase{Withdrawn: true}
}
