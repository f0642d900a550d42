package bgp

import (
	"fmt"
	"math/bits"
	"time"

	"plinth.dev/plinth/bfd"
)

const (
	// firstAttemptTime and attemptTime bound an attempt to connect, after which its likely cause
	// is diagnosed. GoBGP by itself would wait four minutes for the OPEN of a router that accepted
	// the connection and hangs.
	firstAttemptTime = 6 * time.Second
	attemptTime      = 15 * time.Second
	// refusalPause is the time that a session stays down after a prefix limit was exceeded or an OPEN
	// refused; it doubles each time, up to refusalPauseMax.
	refusalPause    = time.Minute
	refusalPauseMax = 16 * time.Minute
	// steady is the time that a session has to be up for its past failures not to count any more.
	steady = 30 * time.Second
	// collisionReset is the time after the last collision from which on earlier ones do not count any more: BIRD
	// and FRR connect again after one and two minutes.
	collisionReset = 10 * time.Minute
)

// retry damps the attempts to establish a session that fails again and again. Its zero value is that of a
// session that has not failed yet.
type retry struct {
	attempts      int         // failed ones since the session was last up for long
	refusals      int         // in a row: prefix limits that were exceeded, and OPENs that were refused
	losses        bfd.Damping // of a session that flaps
	collisions    bfd.Damping // with another speaker of the same address
	lastCollision time.Time
	heldUntil     time.Time // the session is paused on purpose until then; zero: it is not
	probeFirst    bool      // the router's OPEN was refused: a probe reads it before the next attempt
}

// isHeld reports whether the session is paused on purpose.
func (r *retry) isHeld() bool { return !r.heldUntil.IsZero() }

// established resets what was counted before the session was up for long.
func (r *retry) established() { r.attempts, r.refusals, r.losses = 0, 0, bfd.Damping{} }

// attemptTime returns how long the next attempt may take.
func (r *retry) attemptTime() time.Duration {
	if r.attempts == 0 {
		return firstAttemptTime
	}
	return attemptTime
}

// diagnosisDue reports whether to diagnose after so many attempts: 1, 2, 4, 8, 16, 32, 48... The
// cause may change, so in the end it is diagnosed every four minutes.
func (r *retry) diagnosisDue() bool {
	return bits.OnesCount(uint(r.attempts)) == 1 || r.attempts%16 == 0
}

// afterRefusal counts a refusal, and returns how long to pause.
func (r *retry) afterRefusal() time.Duration {
	r.refusals++
	return min(refusalPause<<min(r.refusals-1, 10), refusalPauseMax)
}

// afterCollision counts a collision with another speaker, and returns how long to pause: not at all at
// first, then 2 s, 4, 8 and so on up to 60.
func (r *retry) afterCollision() time.Duration {
	if time.Since(r.lastCollision) > collisionReset {
		r.collisions = bfd.Damping{}
	}
	r.lastCollision = time.Now()
	return r.collisions.Lost(0)
}

// flapping is the diagnosis of a session that is held down, with that of its last loss.
func (r *retry) flapping(loss diagnosis) diagnosis {
	return diagnosis{Flapping, fmt.Sprintf("it was lost %d times in a row, each time less than %v after it came up, and is left down for %v; the last time for %s: %s",
		r.losses.Flaps(), bfd.Steady, time.Until(r.heldUntil).Round(time.Second), loss.cause, loss.detail)}
}
