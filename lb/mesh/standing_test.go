package mesh

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
)

const (
	ms = time.Millisecond
	at = time.Hour // when a story begins
)

func newPeer() *peer {
	return &peer{detection: 300 * ms, restartTime: 20 * time.Second, opened: at}
}

func upAt(last time.Duration) facts {
	return facts{
		bfd.Status{State: bfd.Up, Peer: bfd.Up},
		bfd.Heard{Last: last, LastUp: last, Detection: 300 * ms},
	}
}

func lostAt(last time.Duration, why bfd.Event) facts {
	f := upAt(last)
	f.State, f.Peer, f.Losses, f.LastLoss = bfd.Down, bfd.Down, 1, why
	return f
}

// story is what happens to a peer; an ask takes effect when it is answered.
type story struct {
	after  time.Duration
	facts  facts
	answer answer // to the ask in flight
	want   advertise.Standing
	asks   bool
}

func play(t *testing.T, p *peer, steps []story) {
	t.Helper()
	for i, s := range steps {
		if s.answer != noAnswerYet {
			p.answered(s.answer == answers)
		}
		p.observe(at+s.after, s.facts)
		asks := p.wantsAsk(at+s.after, s.facts)
		if asks {
			p.ask(at + s.after)
		}
		if p.standing != s.want || asks != s.asks {
			t.Fatalf("step %d, after %v: %v, asks %v; want %v, %v: %+v", i, s.after, p.standing, asks, s.want, s.asks, *p)
		}
	}
}

func TestStandingFollowsWhatHappens(t *testing.T) {
	nothing := facts{Status: bfd.Status{State: bfd.Down, Peer: bfd.Down}}
	heardOnly := nothing
	heardOnly.Last = at + 100*ms
	leaving := upAt(at)
	leaving.Says = bfd.ConcatenatedPathDown
	ended := nothing
	ended.Peer = bfd.AdminDown
	slowed := upAt(at)
	slowed.Detection = time.Minute
	timedOut, deaf := lostAt(at, bfd.TimedOut), lostAt(at, bfd.NeighborDown)
	for name, steps := range map[string][]story{
		"a newborn that hears nothing": {
			{1599 * ms, nothing, 0, advertise.Unheard, false}, {1600 * ms, nothing, 0, advertise.Down, false},
			{1700 * ms, upAt(at + 1690*ms), 0, advertise.Up, false},
		},
		"heard, and never up": {{2 * time.Second, heardOnly, 0, advertise.Unheard, false}, {4600 * ms, heardOnly, 0, advertise.Down, false}},
		"leaving":             {{0, leaving, 0, advertise.Leaving, false}, {10 * ms, upAt(at), 0, advertise.Up, false}},
		"ended":               {{0, upAt(at), 0, advertise.Up, false}, {10 * ms, ended, 0, advertise.Down, false}},
		"deaf":                {{0, upAt(at), 0, advertise.Up, false}, {10 * ms, deaf, 0, advertise.Down, false}},
		"cut off": {
			{0, upAt(at), 0, advertise.Up, false}, {150 * ms, upAt(at), 0, advertise.Up, true},
			{260 * ms, upAt(at), silent, advertise.Up, false}, {300 * ms, timedOut, 0, advertise.Down, false},
		},
		"cut off, and the ask hangs": {
			{0, upAt(at), 0, advertise.Up, false}, {150 * ms, upAt(at), 0, advertise.Up, true},
			{300 * ms, timedOut, 0, advertise.Up, false}, {449 * ms, timedOut, 0, advertise.Up, false},
			{450 * ms, timedOut, 0, advertise.Down, false},
		},
		"killed, and back": {
			{0, upAt(at), 0, advertise.Up, false}, {150 * ms, upAt(at), 0, advertise.Up, true},
			{300 * ms, timedOut, answers, advertise.Holding, false}, {1200 * ms, timedOut, 0, advertise.Holding, true},
			{1300 * ms, timedOut, answers, advertise.Holding, false}, {1400 * ms, upAt(at + 1400*ms), 0, advertise.Up, false},
		},
		"killed, and dies meanwhile": {
			{0, upAt(at), 0, advertise.Up, false}, {150 * ms, upAt(at), 0, advertise.Up, true},
			{300 * ms, timedOut, answers, advertise.Holding, false}, {1200 * ms, timedOut, 0, advertise.Holding, true},
			{1310 * ms, timedOut, silent, advertise.Down, false},
		},
		"UDP is filtered": {
			{0, upAt(at), 0, advertise.Up, false}, {150 * ms, upAt(at), 0, advertise.Up, true},
			{300 * ms, timedOut, answers, advertise.Holding, false}, {20299 * ms, timedOut, 0, advertise.Holding, true},
			{20300 * ms, timedOut, answers, advertise.Down, false}, {time.Minute, timedOut, 0, advertise.Down, false},
		},
		"a hand-over, and back": {
			{0, upAt(at), 0, advertise.Up, false}, {290 * ms, slowed, 0, advertise.Up, true},
			{301 * ms, slowed, answers, advertise.Holding, false}, {30 * time.Second, upAt(at + 30*time.Second), 0, advertise.Up, false},
		},
		"a hand-over, and nobody comes": {
			{0, upAt(at), 0, advertise.Up, false}, {301 * ms, slowed, 0, advertise.Holding, true},
			{400 * ms, slowed, answers, advertise.Holding, false}, {time.Minute, timedOut, 0, advertise.Down, false},
		},
		"a hand-over, and it dies": {
			{0, upAt(at), 0, advertise.Up, false}, {301 * ms, slowed, 0, advertise.Holding, true},
			{400 * ms, slowed, silent, advertise.Down, false}, {20 * time.Second, slowed, 0, advertise.Down, false},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, newPeer(), steps) })
	}
}

// A session that is not up is Down within the bounds that doc.go gives, whatever is answered.
func TestNobodyIsHeldForLongerThanTheRestartTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPeer()
		p.observe(at, upAt(at))
		f := lostAt(at, rapid.SampledFrom([]bfd.Event{bfd.TimedOut, bfd.NeighborDown}).Draw(t, "loss"))
		for now := at + 300*ms; now < at+p.restartTime+600*ms; now += time.Duration(rapid.IntRange(1, 100).Draw(t, "step")) * ms {
			if p.asking && rapid.Bool().Draw(t, "arrives") {
				p.answered(rapid.IntRange(0, 9).Draw(t, "yes") > 0)
			}
			p.observe(now, f)
			if p.wantsAsk(now, f) {
				p.ask(now)
			}
		}
		if p.observe(at+p.restartTime+600*ms, f); p.standing != advertise.Down {
			t.Fatalf("%v: %+v", p.standing, *p)
		}
	})
}

func TestTheDeadlineRestsOnWhatWasNotSleptThrough(t *testing.T) {
	e := evidence{detection: 300 * ms, read: true}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := e.until(); got != want {
			t.Errorf("%s: %v, want %v", what, got-at, want-at)
		}
	}
	run := func(from, to time.Duration) {
		for now := from; now <= to; now += 50 * ms {
			e.observe(at + now)
		}
	}
	run(0, 0)
	expect("just begun", 0)
	e.anyUp, e.lastUp = true, at+40*ms
	expect("a packet", at+340*ms)
	run(10*time.Second, 10*time.Second)
	expect("stopped and resumed, before a packet", at+340*ms)
	if !e.hasJustResumed(at+10299*ms) || e.hasJustResumed(at+10300*ms) {
		t.Error("what it saw at once is not let pass for a detection time")
	}
	e.anyUp = false
	expect("nobody is up any more", at+340*ms)
	e.witness = at + 10050*ms
	expect("the witness answers", at+10300*ms)
	e.witness = 0
	run(10050*ms, 11*time.Second)
	expect("nobody has come for a second", at+11300*ms)
	e.read = false
	expect("the caller does not know", at+340*ms)
	e.alone = true
	expect("nobody could have", at+11300*ms)
	acts := func(what string, now time.Duration, want bool) {
		t.Helper()
		if got := e.isActedOn(at + now); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	acts("the caller has not acted on the stop", 11*time.Second, false)
	e.acted = e.resumed
	acts("it has", 11*time.Second, true)
	acts("stopped again, and no turn of the loop yet", 12*time.Second, false)
	run(12*time.Second, 12*time.Second)
	acts("the loop knows, and the caller does not", 12*time.Second, false)
}
