package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/wait"
)

// loopback returns an address that no other process uses: all BFD sessions have one port.
func loopback(n byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, 100 + n, byte(pid >> 8), byte(pid)})
}

// timeless returns a router without a hold time, and a session with it that has BFD.
func timeless(t *testing.T, addr netip.Addr) (*listener, *Speaker, *session) {
	t.Helper()
	router := listen(t, addr, capabilitiesOf("46")...)
	router.mu.Lock()
	router.hold = 0
	router.mu.Unlock()
	terms := router.session()
	terms.Local, terms.BFD = loopback(1), inventory.BFDProfile{Name: "fast", Interval: 50 * time.Millisecond, Multiplier: 3}
	sc := announcing(terms, advertisement("203.0.113.10/32"), advertisement("2001:db8:113::10/128"))
	speaker := NewSpeaker(Options{Log: logger(t)})
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{sc}}
	if err := speaker.Set(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return router, speaker, speaker.session(config, sc)
}

// received counts the UPDATEs that a router received, End-of-RIB included.
func (l *listener) received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.updates
}

// becomesOf waits until the only session of a Speaker is in a phase.
func becomesOf(t *testing.T, s *Speaker, p phase) {
	t.Helper()
	wait.True(t, 6*time.Second, 20*time.Millisecond, "the session is "+string(p), func() (bool, string) {
		st := s.State(t.Context())[0]
		return st.Phase == string(p), fmt.Sprintf("%s: %v", st.Phase, st)
	})
}

// Without a hold time BFD alone detects a dead end. Each attempt announced all routes for as long as BFD may take to come up.
func TestARouterWithoutAHoldTimeIsToldNothingBeforeBFDIsUp(t *testing.T) {
	listener, s, session := timeless(t, loopback(2))
	for attempt := range 2 {
		becomesOf(t, s, unwatched)
		if st := s.State(t.Context())[0]; st.Up || len(st.Announced) > 0 || attempt == 0 && st.Detail != awaitsBFD {
			t.Errorf("attempt %d: %v, announced %v", attempt, st, st.Announced)
		}
		onOwner(t, session, func() {
			more := session.out.desired.Edit(nil, []advertise.Advertisement{advertisement("203.0.113.11/32")})
			if err := session.set(t.Context(), session.terms, more); err != nil {
				t.Error(err)
			}
			session.onTimer() // BFD has had its time
			if session.phase != paused || session.state.Cause != OpenRefused || session.state.Detail != noBFDEither {
				t.Errorf("attempt %d: %s: %v", attempt, session.phase, session.state)
			}
			session.onTimer() // the pause is over
			session.onDiagnosis(session.diagnoser.serial, diagnosis{CauseNone, ""})
		})
	}
	if n := listener.received(); n > 0 {
		t.Errorf("the router was sent %d UPDATEs, and has %v", n, listener.has())
	}
}

// What was held back comes once BFD is up, with what was set meanwhile, and ends with BFD.
func TestARouterWithoutAHoldTimeIsToldAllOnceBFDIsUp(t *testing.T) {
	listener, speaker, session := timeless(t, loopback(3))
	becomesOf(t, speaker, unwatched)
	onOwner(t, session, func() {
		other := session.out.desired.Edit([]advertise.Advertisement{advertisement("203.0.113.10/32")}, []advertise.Advertisement{advertisement("203.0.113.11/32")})
		if err := session.set(t.Context(), session.terms, other); err != nil {
			t.Error(err)
		}
	})
	if n := listener.received(); n > 0 {
		t.Errorf("the router was sent %d UPDATEs before BFD began", n)
	}
	router := beginBFD(t, loopback(3))
	becomes(t, speaker, listener, []string{"2001:db8:113::10/128", "203.0.113.11/32"}, nil)
	router.Close(t.Context(), 0)
	wait.True(t, 6*time.Second, 20*time.Millisecond, "the session ends with BFD", func() (bool, string) {
		onOwner(t, session, func() {
			if session.phase == established {
				session.onTimer() // it is checked again
			}
		})
		st := speaker.State(t.Context())[0]
		return !st.Up, fmt.Sprint(st)
	})
}

// beginBFD begins BFD on the router.
func beginBFD(t *testing.T, addr netip.Addr) *bfd.Session {
	t.Helper()
	router, err := bfd.NewListeners().Open(bfd.Terms{
		Local: addr, Remote: loopback(1), Timers: bfd.Timers{Interval: 50 * time.Millisecond, Multiplier: 3},
	}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	router.Begin()
	return router
}

// A router may start its BFD after BGP. The pause, of a minute and more, is for those that change nothing.
func TestARefusedSessionIsTriedAtOnceWhenBFDComesUp(t *testing.T) {
	listener, speaker, session := timeless(t, loopback(4))
	becomesOf(t, speaker, unwatched)
	onOwner(t, session, func() {
		session.retry.refusals = 4
		session.onTimer() // BFD has had its time
		if left := time.Until(session.retry.heldUntil); session.phase != paused || left < refusalPauseMax/2 {
			t.Errorf("%s, for %v more: %v", session.phase, left, session.state)
		}
	})
	router := beginBFD(t, loopback(4))
	becomes(t, speaker, listener, []string{"2001:db8:113::10/128", "203.0.113.10/32"}, nil)
	router.Close(t.Context(), 0)
}

// TestTheHoldTimeOfAnOPENIsFound fails where a version of GoBGP has it elsewhere: nothing would be held back then.
func TestTheHoldTimeOfAnOPENIsFound(t *testing.T) {
	l := listen(t, netip.MustParseAddr("127.0.0.1"), capabilitiesOf("46")...)
	s := speakTo(t, l)
	becomesOf(t, s, established)
	s.mu.Lock()
	x := s.sessions[Key{Router: "tor1", Addr: netip.MustParseAddr("127.0.0.1")}]
	s.mu.Unlock()
	onOwner(t, x, func() {
		if hold := fieldOf(x.server.peer, "fsm", "recvOpen", "Body", "HoldTime"); !hold.IsValid() || !hold.CanUint() || hold.Uint() != 9 {
			t.Errorf("the router's hold time is %v, want 9", hold)
		}
	})
}
