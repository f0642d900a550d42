package bfd

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	fast = Timers{Interval: 100 * time.Millisecond, Multiplier: 3}
	slow = Timers{Interval: 300 * time.Millisecond, Multiplier: 5}
)

// hear has d receive a packet, as a session would.
func (d *detector) hear(p packet, now time.Time) Event {
	q, ok := parse(p.encode())
	if !ok || !d.accepts(q) {
		return Unchanged
	}
	return d.receive(q, now)
}

// pair are two detectors that are up with each other, and have confirmed their intervals.
func pair(t *testing.T, a, b Timers) (x, y *detector) {
	t.Helper()
	x, y = newDetector(a, 7), newDetector(b, 8)
	converse(x, y, time.Unix(0, 0))
	if x.state != Up || y.state != Up || x.poll || y.poll {
		t.Fatalf("%+v, %+v", x, y)
	}
	return x, y
}

// converse exchanges packets until both have said all there is to say.
func converse(x, y *detector, now time.Time) (events []Event) {
	for range 6 {
		for _, way := range [][2]*detector{{x, y}, {y, x}} {
			p := way[0].next(false)
			if e := way[1].hear(p, now); e != Unchanged {
				events = append(events, e)
			}
			if p.poll {
				way[0].hear(way[1].next(true), now)
			}
		}
	}
	return events
}

func TestTwoDetectorsComeUpAndOneNoticesTheOthersSilence(t *testing.T) {
	now := time.Unix(0, 0)
	a, b := newDetector(fast, 7), newDetector(slow, 8)
	if got := fmt.Sprint(converse(a, b, now)); got != "[came up came up]" || a.state != Up || b.state != Up || a.poll || b.poll {
		t.Fatalf("%v: %+v, %+v", got, a, b)
	}
	if got, want := a.detectionTime(), 1500*time.Millisecond; got != want {
		t.Errorf("the fast end waits %v for the slow one, want %v", got, want)
	}
	if got, want := b.detectionTime(), 900*time.Millisecond; got != want {
		t.Errorf("the slow end waits %v for the fast one, want %v", got, want)
	}
	if e := a.timeOut(); e != TimedOut || a.state != Down || a.diagnostic != DetectionTimeExpired || a.tx != time.Second {
		t.Errorf("after silence: %v, %+v", e, a)
	}
	if e := b.hear(a.next(false), now); e != NeighborDown || b.diagnostic != NeighborSignaledDown {
		t.Errorf("the other end is not told: %v", e)
	}
}

// TestEachStateAnswersEachState is the figure of RFC 5880, section 6.2, as a table.
func TestEachStateAnswersEachState(t *testing.T) {
	for _, tt := range []struct {
		state, remote State
		want          State
		event         Event
	}{
		{Down, AdminDown, Down, Unchanged},
		{Down, Down, Init, Unchanged},
		{Down, Init, Up, CameUp},
		{Down, Up, Down, Unchanged},
		{Init, AdminDown, Down, Unchanged},
		{Init, Down, Init, Unchanged},
		{Init, Init, Up, CameUp},
		{Init, Up, Up, CameUp},
		{Up, AdminDown, Down, EndedByPeer},
		{Up, Down, Down, NeighborDown},
		{Up, Init, Up, Unchanged},
		{Up, Up, Up, Unchanged},
		{AdminDown, AdminDown, AdminDown, Unchanged},
		{AdminDown, Down, AdminDown, Unchanged},
		{AdminDown, Init, AdminDown, Unchanged},
		{AdminDown, Up, AdminDown, Unchanged},
	} {
		d := newDetector(fast, 7)
		d.state, d.remote, d.unsent = tt.state, 8, false
		e := d.hear(packet{state: tt.remote, multiplier: 3, mine: 8, yours: 7}, time.Unix(0, 0))
		if d.state != tt.want || e != tt.event {
			t.Errorf("%v receives %v: %v, %v; want %v, %v", tt.state, tt.remote, d.state, e, tt.want, tt.event)
		}
	}
}

func TestASessionThatEndsIsNoLossOfThePath(t *testing.T) {
	a, b := pair(t, fast, fast)
	a.shutDown()
	if e := b.hear(a.next(false), time.Unix(0, 0)); e != EndedByPeer || e.isLoss() || b.state != Down {
		t.Errorf("got %v, %+v", e, b)
	}
}

func TestAPeerThatBeginsAnewIsNoLossOfThePath(t *testing.T) {
	now := time.Unix(0, 0)
	a, _ := pair(t, fast, fast)
	if e := a.hear(packet{state: Down, multiplier: 3, mine: 99}, now); e != RestartedByPeer || e.isLoss() || a.state != Init || a.remote != 99 {
		t.Errorf("another discriminator: %v, %+v", e, a)
	}
	a, _ = pair(t, fast, fast)
	if e := a.hear(packet{state: Down, multiplier: 3, mine: 8}, now); e != NeighborDown || !e.isLoss() {
		t.Errorf("the same discriminator: %v, %+v", e, a)
	}
}

func TestTheNextProcessGoesOnWithASessionThatThePeerStillHasUp(t *testing.T) {
	now := time.Unix(0, 0)
	a, peer := pair(t, fast, fast)
	a.slowDown(time.Minute)
	if peer.hear(a.next(false), now); peer.detectionTime() != time.Minute {
		t.Fatalf("the peer waits for %v", peer.detectionTime())
	}
	if a.hear(peer.next(true), now); a.poll {
		t.Fatal("the confirmation was not heard")
	}
	next := newDetector(fast, 7)
	if e := next.hear(peer.next(false), now); e != CameUp || next.state != Up || next.remote != 8 {
		t.Fatalf("%v: %+v", e, next)
	}
	if e := peer.hear(next.next(false), now); e != Unchanged || peer.detectionTime() != 300*time.Millisecond {
		t.Errorf("%v: the peer waits for %v", e, peer.detectionTime())
	}
}

func TestASessionThatWasLostIsNotGoneOnWith(t *testing.T) {
	now := time.Unix(0, 0)
	a, peer := pair(t, fast, fast)
	a.timeOut() // the peer is not heard, and hears us
	if e := a.hear(peer.next(false), now); e != Unchanged || a.state != Down {
		t.Errorf("%v: %+v", e, a)
	}
	if e := peer.hear(a.next(false), now); e != NeighborDown {
		t.Errorf("the peer is not told: %v", e)
	}
}

// A peer that comes back with another discriminator discards what bears the old one.
func TestAPeerThatFallsSilentIsForgottenInAnyState(t *testing.T) {
	now := time.Unix(0, 0)
	for _, last := range []State{AdminDown, Down, Init, Up} {
		t.Run(last.String(), func(t *testing.T) {
			for _, state := range []State{Down, Init, Up} {
				d := newDetector(fast, 7)
				d.state, d.remote, d.unsent = state, 8, false
				d.hear(packet{state: last, diagnostic: 5, multiplier: 3, mine: 8, yours: 7, minTx: time.Second, demand: true}, now)
				was, diagnostic := d.state, d.diagnostic
				if !d.detects() {
					t.Errorf("from %v: the detection time does not run in %v", state, was)
				}
				e := d.timeOut()
				if p := d.next(false); p.yours != 0 || p.state != Down || !d.sendsPeriodically() || d.detects() {
					t.Errorf("from %v: sends %+v, periodically %v, the detection time runs %v", state, p, d.sendsPeriodically(), d.detects())
				}
				if lost := was == Up; (e == TimedOut) != lost {
					t.Errorf("from %v: event %v in %v", state, e, was)
				}
				if was == Down && d.diagnostic != diagnostic {
					t.Errorf("from %v: the reason for being down was %v and is %v", state, diagnostic, d.diagnostic)
				}
			}
		})
	}
}

func TestNewIntervalsWaitForThePeersWord(t *testing.T) {
	now := time.Unix(0, 0)
	a, peer := newDetector(fast, 7), newDetector(slow, 8)
	if p := a.next(false); p.minTx != time.Second || p.poll {
		t.Errorf("before it is up a session sends %+v", p)
	}
	a.hear(packet{state: Init, multiplier: 5, mine: 8, yours: 7, minTx: time.Second, minRx: 300 * time.Millisecond}, now)
	if p := a.next(false); a.state != Up || !p.poll || p.final || p.minTx != fast.Interval || p.minRx != fast.Interval {
		t.Errorf("once it is up it asks with %+v", p)
	}
	if p := a.next(true); p.poll || !p.final {
		t.Errorf("it answers with %+v", p)
	}
	for range 3 {
		if p := a.next(false); !p.poll {
			t.Errorf("unanswered, it asks no more: %+v", p)
		}
	}
	peer.state, peer.remote, peer.unsent = Up, 7, false
	if a.hear(peer.next(true), now); a.next(false).poll {
		t.Error("answered, it goes on asking")
	}
}

func TestNewTimersCountOnceThePeerHasConfirmedThem(t *testing.T) {
	now := time.Unix(0, 0)
	patient := Timers{Interval: time.Second, Multiplier: 5}
	for _, tt := range []struct {
		was, is         Timers
		interval, waits time.Duration // until the peer has confirmed them: how far apart it sends, and for how long it waits
	}{
		{fast, patient, fast.Interval, 3 * patient.Interval},
		{patient, fast, fast.Interval, 3 * patient.Interval},
	} {
		d, peer := pair(t, tt.was, fast)
		peer.agreedTx = 10 * time.Millisecond
		d.remoteRx = time.Microsecond // the peer takes any pace
		d.setTimers(tt.is)
		if p := d.next(false); !p.poll || p.minTx != tt.is.Interval || p.minRx != tt.is.Interval || p.multiplier != tt.is.Multiplier {
			t.Errorf("%v to %v: it asks with %+v", tt.was, tt.is, p)
		}
		if d.interval() != tt.interval || d.detectionTime() != tt.waits {
			t.Errorf("%v to %v: before the answer it sends every %v and waits %v, want %v and %v", tt.was, tt.is, d.interval(), d.detectionTime(), tt.interval, tt.waits)
		}
		peer.hear(d.next(false), now)
		final := peer.next(true)
		final.minRx = time.Microsecond
		if d.hear(final, now); d.poll || d.interval() != tt.is.Interval || d.detectionTime() != 3*max(tt.is.Interval, fast.Interval) {
			t.Errorf("%v to %v: after it every %v, waiting %v", tt.was, tt.is, d.interval(), d.detectionTime())
		}
	}
	d := newDetector(fast, 7)
	if d.setTimers(patient); d.poll || d.next(false).minRx != patient.Interval {
		t.Errorf("down it asks with %+v", d.next(false))
	}
}

func TestThePauseBetweenPacketsIsJittered(t *testing.T) {
	for _, tt := range []struct {
		Timers
		peer    time.Duration // wants packets so far apart
		atLeast time.Duration
		atMost  time.Duration
	}{
		{Timers{100 * time.Millisecond, 3}, time.Microsecond, 75 * time.Millisecond, 100 * time.Millisecond},
		{Timers{100 * time.Millisecond, 3}, 300 * time.Millisecond, 225 * time.Millisecond, 300 * time.Millisecond},
		{Timers{100 * time.Millisecond, 1}, time.Microsecond, 75 * time.Millisecond, 90 * time.Millisecond},
	} {
		d := newDetector(tt.Timers, 7)
		d.state, d.remoteRx = Up, tt.peer
		d.setTx(tt.Interval)
		least, most := time.Hour, time.Duration(0)
		for range 10_000 {
			least, most = min(least, d.untilNext()), max(most, d.untilNext())
		}
		width := tt.atMost - tt.atLeast
		if least < tt.atLeast || most > tt.atMost || least > tt.atLeast+width/20 || most < tt.atMost-width/20 {
			t.Errorf("%+v: the pauses are %v to %v, want all of %v to %v", tt, least, most, tt.atLeast, tt.atMost)
		}
	}
}

func TestAPeerInDemandModeIsSentNothingUnasked(t *testing.T) {
	now := time.Unix(0, 0)
	a, peer := pair(t, fast, fast)
	say := func(state State, demand bool) {
		p := peer.next(false)
		p.state, p.demand, p.poll = state, demand, false
		a.hear(p, now)
	}
	if say(Up, true); a.sendsPeriodically() {
		t.Error("it goes on sending")
	}
	if !a.detects() {
		t.Error("the peer's own packets still come, and their lack is not noticed")
	}
	a.poll = true
	if !a.sendsPeriodically() {
		t.Error("a poll of its own is sent once only")
	}
	a.poll = false
	if say(Up, false); !a.sendsPeriodically() {
		t.Error("the peer left demand mode, and is sent nothing")
	}
	say(Up, true)
	if a.timeOut(); !a.sendsPeriodically() {
		t.Error("a session that is down is sent nothing")
	}
	a, peer = pair(t, fast, fast)
	say(Up, true)
	if say(Down, true); a.state != Down || !a.sendsPeriodically() {
		t.Errorf("the peer is down and cannot be in demand mode; it is sent nothing: %+v", a)
	}
}

func TestAPeerThatWantsNoPacketsIsSentNone(t *testing.T) {
	a, peer := pair(t, fast, fast)
	p := peer.next(false)
	p.minRx = 0
	if a.hear(p, time.Unix(0, 0)); a.sendsPeriodically() {
		t.Error("it goes on sending")
	}
}

func TestPacketsOfOtherSessionsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDetector(fast, 7)
		d.state, d.remote = Up, 7
		before := *d
		p := packet{
			state: State(rapid.Uint8Range(0, 3).Draw(t, "state")), demand: rapid.Bool().Draw(t, "demand"),
			poll: rapid.Bool().Draw(t, "poll"), final: rapid.Bool().Draw(t, "final"),
			multiplier: rapid.Uint8().Draw(t, "multiplier"), mine: rapid.Uint32().Draw(t, "mine"),
			yours: rapid.Uint32Min(1).Filter(func(v uint32) bool { return v != d.local }).Draw(t, "yours"),
		}
		if e := d.hear(p, time.Unix(0, 0)); e != Unchanged || *d != before {
			t.Fatalf("%+v did %v", p, e)
		}
	})
}
