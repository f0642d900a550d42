package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
)

// TestTheTableOfTransitionsIsThePicture shows the table without its occurrences.
func TestTheTableOfTransitionsIsThePicture(t *testing.T) {
	var got []string
	for from, ways := range transitions {
		for _, to := range ways {
			got = append(got, fmt.Sprintf("%s > %s", from, to))
		}
	}
	slices.Sort(got)
	want := strings.TrimSpace(`
connecting > established
connecting > paused
connecting > unconfirmed
connecting > unwatched
diagnosing > paused
established > paused
paused > connecting
paused > diagnosing
paused > refused
refused > paused
refused > refused
unconfirmed > established
unconfirmed > paused
unwatched > established
unwatched > paused
unwatched > unconfirmed
`)
	if now := strings.Join(got, "\n"); now != want {
		t.Errorf("the transitions are\n%s\nwant\n%s", now, want)
	}
}

func TestEveryPhaseIsReachedAndLeft(t *testing.T) {
	reached := map[phase]bool{paused: true}
	for next := []phase{paused}; len(next) > 0; next = next[1:] {
		for _, to := range transitions[next[0]] {
			if !reached[to] {
				reached[to], next = true, append(next, to)
			}
		}
	}
	for _, from := range []phase{paused, refused, connecting, unwatched, unconfirmed, established, diagnosing} {
		if !reached[from] || len(transitions[from]) == 0 {
			t.Errorf("%s: reached %v, left by %v", from, reached[from], transitions[from])
		}
		for o := termsRefused; o <= diagnosisEnded; o++ {
			s := session{phase: from}
			want, leads := transitions[from][o]
			if s.phase.move(o) != leads || leads && s.phase != want || !leads && s.phase != from {
				t.Errorf("occurrence %d takes %s to %s", o, from, s.phase)
			}
		}
	}
	if len(reached) != len(transitions) {
		t.Errorf("reached %v of %v", slices.Sorted(maps.Keys(reached)), slices.Sorted(maps.Keys(transitions)))
	}
}

// acts holds all that can happen to a session. The reports of a server are made up.
var acts = map[string]func(*testing.T, *session, terms){
	"it is set as it was":  func(t *testing.T, s *session, good terms) { _ = s.set(t.Context(), s.terms, s.out.desired) },
	"it is set good terms": func(t *testing.T, s *session, good terms) { _ = s.set(t.Context(), good, s.out.desired) },
	"it is set other good ones": func(t *testing.T, s *session, good terms) {
		good.Session.HoldTime *= 2
		_ = s.set(t.Context(), good, s.out.desired)
	},
	"it is set bad terms": func(t *testing.T, s *session, good terms) {
		good.Session.HoldTime = 0
		_ = s.set(t.Context(), good, s.out.desired)
	},
	"the router sends an OPEN": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_OPENCONFIRM})
	},
	"GoBGP has a session": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_ESTABLISHED})
	},
	"the router has no hold time": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: s.server, noHoldTime: true})
	},
	"the router has no hold time, and BFD is on": func(_ *testing.T, s *session, _ terms) {
		if s.phase == connecting {
			s.terms.Session.BFD = inventory.BFDProfile{Name: "calm", Interval: time.Second, Multiplier: 4}
		}
		s.onEvent(event{from: s.server, noHoldTime: true})
	},
	"a diagnosis finds that it is refused": func(_ *testing.T, s *session, _ terms) {
		s.onDiagnosis(s.diagnoser.serial, diagnosis{OpenRefused, noHoldTime})
	},
	"an old server has a session": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: &instance{}, state: gobgp.BGP_FSM_ESTABLISHED})
	},
	"GoBGP has none": func(_ *testing.T, s *session, _ terms) { s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_IDLE}) },
	"the router falls silent": func(_ *testing.T, s *session, _ terms) {
		if s.server != nil {
			s.diagnoser.log.seen.holdExpired = true
		}
		s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_IDLE})
	},
	"the router sends too much": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_ESTABLISHED, admin: api.PeerState_ADMIN_STATE_PFX_CT})
	},
	"another program has the session": func(_ *testing.T, s *session, _ terms) {
		s.onEvent(event{from: s.server, other: &connection{}})
	},
	"the router has another session": func(_ *testing.T, s *session, _ terms) { refuseCollision(s) },
	"time passes":                    func(_ *testing.T, s *session, _ terms) { s.onTimer() },
	"a diagnosis ends": func(_ *testing.T, s *session, _ terms) {
		s.onDiagnosis(s.diagnoser.serial, diagnosis{Refused, "nobody listens"})
	},
	"an old diagnosis ends": func(_ *testing.T, s *session, _ terms) {
		s.onDiagnosis(s.diagnoser.serial-1, diagnosis{ASNMismatch, "long ago"})
	},
	"a snapshot is asked for": func(t *testing.T, s *session, _ terms) { s.report(t.Context()) },
}

// TestASessionIsInOnePhaseWhateverHappens: what a session is doing follows from its phase alone.
func TestASessionIsInOnePhaseWhateverHappens(t *testing.T) {
	session := sessionWithoutRouter(t)
	var good terms
	onOwner(t, session, func() { good = session.terms })
	seen := map[phase]bool{}
	act := func(name string) (wrong string) {
		before := session.phase
		acts[name](t, session, good)
		seen[session.phase] = true
		if wrong = session.contradiction(); wrong != "" {
			wrong = fmt.Sprintf("%s while %s: %s: %+v", name, before, wrong, session.state)
		}
		return wrong
	}
	happens := func(name string) (wrong string) {
		onOwner(t, session, func() { wrong = act(name) })
		return wrong
	}
	var wrong []string
	onOwner(t, session, func() { // at once: the servers that are begun report as well
		for _, name := range []string{ // through all phases
			"GoBGP has a session", "the router falls silent", "a diagnosis ends", "GoBGP has a session", "time passes", "the router sends too much",
			"time passes", "the router has no hold time, and BFD is on", "it is set bad terms",
		} {
			wrong = append(wrong, act(name))
		}
	})
	if all := strings.TrimSpace(strings.Join(wrong, "\n")); all != "" {
		t.Fatal(all)
	}
	for p := range transitions {
		if !seen[p] {
			t.Errorf("never %s: %v", p, seen)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(acts))), 1, 60).Draw(rt, "what happens") {
			if wrong := happens(name); wrong != "" {
				rt.Fatal(wrong)
			}
		}
	})
}

// contradiction returns the part of a session that does not fit its phase; empty: none.
func (s *session) contradiction() string {
	switch {
	case (s.server != nil) != s.phase.hasServer():
		return fmt.Sprintf("in %s a server runs: %v", s.phase, s.server != nil)
	case s.state.Up != (s.phase == established):
		return fmt.Sprintf("in %s it is up: %v", s.phase, s.state.Up)
	case s.state.Up != (s.state.Cause == CauseNone):
		return fmt.Sprintf("up: %v, and down for %q", s.state.Up, s.state.Cause)
	case (s.terms.check() != nil) != (s.phase == refused):
		return fmt.Sprintf("in %s its terms: %v", s.phase, s.terms.check())
	case !s.retry.heldUntil.IsZero() && s.phase != paused:
		return fmt.Sprintf("in %s it is held until %v", s.phase, s.retry.heldUntil)
	case s.phase.hasServer() && s.out.announced.Len()+s.out.unsupported.count != s.out.desired.Len():
		return fmt.Sprintf("in %s the server has %d routes of %d, and %d are withheld", s.phase, s.out.announced.Len(), s.out.desired.Len(), s.out.unsupported.count)
	}
	return ""
}

// isPausedFor checks that a session is paused for so many seconds.
func (s *session) isPausedFor(t *testing.T, seconds time.Duration, when string) {
	t.Helper()
	left := time.Until(s.retry.heldUntil)
	if s.phase != paused || left > seconds*time.Second || left < seconds*time.Second-time.Second {
		t.Errorf("%s it is %s for %v, want %ds", when, s.phase, left, int(seconds))
	}
}

// refuseCollision has the router refuse an attempt, since another speaker has the session.
func refuseCollision(s *session) {
	if s.server != nil {
		s.diagnoser.log.seen.received = &notification{code: gobgp.BGP_ERROR_CEASE, subcode: gobgp.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION}
	}
	s.onEvent(event{from: s.server, state: gobgp.BGP_FSM_IDLE})
}

func TestARouterWhoseSessionSomebodyElseHasIsAskedLaterEachTime(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		for i, want := range []time.Duration{0, 2, 4, 8, 16, 32, 60, 60} {
			refuseCollision(session)
			st := session.report(t.Context())
			if st.Cause != SessionTaken || !strings.Contains(st.Detail, "no other program's connection is seen here") {
				t.Errorf("refused %d times: %v", i+1, st)
			}
			if want == 0 {
				if session.phase != connecting {
					t.Errorf("refused once it is %s", session.phase)
				}
				continue
			}
			session.isPausedFor(t, want, fmt.Sprintf("refused %d times", i+1))
			session.onTimer()
		}
		session.retry.lastCollision = time.Now().Add(-collisionReset)
		if refuseCollision(session); session.phase != connecting {
			t.Errorf("refused long after it is %s until %v", session.phase, session.retry.heldUntil)
		}
	})
}

func TestASessionThatAnotherProgramTakesIsLeftToItForLongerEachTime(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		for i, want := range []time.Duration{8, 8, 8, 8, 16, 32, 60, 60} {
			session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_ESTABLISHED})
			session.closeServer(t.Context(), withoutNotification)
			session.onTaken(connection{local: netip.MustParseAddrPort("10.0.0.1:40000"), remote: netip.MustParseAddrPort("10.0.0.2:179"), user: 7})
			session.isPausedFor(t, want, fmt.Sprintf("taken %d times", i+1))
			st := session.report(t.Context())
			if st.Cause != SessionTaken || st.Losses != uint64(i+1) || !strings.Contains(st.Detail, "10.0.0.1:40000 to 10.0.0.2:179 of user 7") {
				t.Errorf("taken %d times: %v, %d losses", i+1, st, st.Losses)
			}
			session.onTimer()
		}
	})
}

func TestASessionThatIsLostAgainAndAgainIsLeftDownLongerEachTime(t *testing.T) {
	session := sessionWithoutRouter(t)
	comesAndGoes := func() {
		session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_ESTABLISHED})
		session.diagnoser.log.seen.received = &notification{code: gobgp.BGP_ERROR_CEASE, subcode: gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET}
		session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_IDLE})
	}
	onOwner(t, session, func() {
		if comesAndGoes(); session.phase != connecting || session.state.Cause != RouterShutdown {
			t.Errorf("after one loss it is %s: %v", session.phase, session.state)
		}
		for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
			comesAndGoes()
			session.isPausedFor(t, want, fmt.Sprintf("after %d losses", i+2))
			st := session.report(t.Context())
			if st.Cause != Flapping || !strings.Contains(st.Detail, string(RouterShutdown)) || st.Flaps != i+2 || st.HeldUntil.IsZero() || st.Losses != uint64(i+2) {
				t.Errorf("after %d losses: %v, %d flaps, held until %v", i+2, st, st.Flaps, st.HeldUntil)
			}
			if err := session.set(t.Context(), session.terms, session.out.desired); err != nil || session.phase != paused {
				t.Errorf("set as it was it is %s: %v", session.phase, err)
			}
			session.onTimer()
		}
		session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_ESTABLISHED})
		session.onTimer() // it has been up for long
		session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_IDLE})
		if session.phase != connecting || session.state.Cause == Flapping {
			t.Errorf("after a long time up it is %s: %v", session.phase, session.state)
		}
	})
}

// A router in graceful restart closes a session without a word where another speaker of the
// address, which was not seen in time, connects. FRR as that speaker is back after 2 s, 4, 8...
func TestASessionThatIsClosedWithoutAWordAgainIsLeftDownForLongEnough(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		for _, graceful := range []bool{true, false} {
			session.retry.losses, session.terms.Session.RestartTime = bfd.Damping{}, 0
			all := []time.Duration{0, 2, 4, 8, 16, 32, 60}
			if graceful {
				session.terms.Session.RestartTime = time.Minute
				all = []time.Duration{0, 8, 8, 8, 16, 32, 60}
			}
			for i, want := range all {
				session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_ESTABLISHED})
				session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_IDLE})
				if left := max(time.Until(session.retry.heldUntil), 0); left > want*time.Second || left < (want-1)*time.Second || session.diagnoser.loss.cause != ClosedByRouter {
					t.Errorf("graceful restart %v, closed %d times it is left down for %v, want %vs: %v", graceful, i+1, left, int(want), session.diagnoser.loss)
				}
				if session.phase == paused {
					session.onTimer()
				}
			}
			session.closeServer(t.Context(), withoutNotification)
			session.tryConnect()
		}
	})
}

// BIRD closes the session without a reason where its BFD was first.
func TestALossThatIsExplainedLaterIsStillOne(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		for number, want := range []Cause{PathDown, Flapping} {
			session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_ESTABLISHED})
			session.diagnoser.log.seen.received = &notification{code: gobgp.BGP_ERROR_CEASE}
			session.onEvent(event{from: session.server, state: gobgp.BGP_FSM_IDLE})
			if session.diagnoser.loss.cause != RouterRefused {
				t.Fatal(session.diagnoser.loss)
			}
			session.replaceLoss(pathLoss)
			if st := session.report(t.Context()); st.Cause != want || !strings.Contains(st.Detail, pathLoss.detail) || st.Flaps != number+1 || st.Losses != uint64(number+1) {
				t.Errorf("after %d losses: %v, %d losses, %d flaps", number+1, st, st.Losses, st.Flaps)
			}
		}
	})
}
