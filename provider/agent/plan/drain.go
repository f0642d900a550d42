package plan

import "time"

// Drain keeps the time of a drain, in which a machine goes from announcing to not: announced with the
// GRACEFUL_SHUTDOWN community first (RFC 8326), so that routers move flows away
// while they still arrive, then withdrawn.
type Drain struct {
	Time  time.Duration // between the two
	Since time.Time     // it began; zero: it has not
	Asked bool          // by a signal, not by the inventory
	known bool          // how far the process before this one had come
}

// Phase is the phase of a drain: what is announced at the moment.
type Phase struct {
	Draining, Withdrawn bool
	Next                time.Duration // until the phase ends; 0: it does not by itself
}

// Resume goes on where the process before this one was.
func (d *Drain) Resume(now time.Time, drained time.Duration) {
	d.known = true
	if drained >= 0 {
		d.Since = now.Add(-drained)
	}
}

// Lasted is how long the drain has, and negative where there is none.
func (d *Drain) Lasted(now time.Time) time.Duration {
	if d.Since.IsZero() {
		return -1
	}
	return max(0, now.Sub(d.Since))
}

// At returns the phase. A machine that was in maintenance already when the agent
// started (first) has nothing announced that could be moved away, unless routers
// still hold what the process before this one announced.
func (d *Drain) At(now time.Time, maintenance, first bool) Phase {
	if !maintenance && !d.Asked {
		d.Since = time.Time{}
		return Phase{}
	}
	if d.Since.IsZero() {
		d.Since = now
		if first && !d.known {
			d.Since = now.Add(-d.Time)
		}
	}
	if left := d.Time - now.Sub(d.Since); left > 0 {
		return Phase{Draining: true, Next: left}
	}
	return Phase{Withdrawn: true}
}
