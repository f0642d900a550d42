package bfd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"plinth.dev/plinth/uptime"
)

// The sessions of these tests have no sockets, and a clock of their own: nothing is lost or late, and no test waits.

// end is what packets of a session leave through.
type end func(data []byte)

func (e end) Write(data []byte) (int, error) {
	e(data)
	return len(data), nil
}

func (end) Close() error { return nil }

// without opens a session without sockets, whose packets leave through e, and which the test closes.
func without(t *testing.T, terms Terms, e end) *Session {
	t.Helper()
	s := newSession(terms, slog.New(slog.DiscardHandler), func(uint16) (io.WriteCloser, error) { return e, nil })
	go s.run(e)
	t.Cleanup(func() { s.Close(context.Background(), 0) })
	return s
}

// arrives has a session receive a packet.
func (s *Session) arrives(p packet) { s.deliver(arrival{p, s.terms.port(), uptime.Now()}) }

// clockPeer is the other end of such a session, played by the test.
type clockPeer struct {
	peer
	sent chan packet // by the session
}

func played(t *testing.T, terms Terms) *clockPeer {
	t.Helper()
	r := &clockPeer{sent: make(chan packet, 1000)}
	s := without(t, terms, func(data []byte) { r.sent <- read(t, data) })
	r.peer = peer{t: t, s: s, hears: r.receives, says: s.arrives, detector: newDetector(terms.Timers, 4711)}
	return r
}

// receives receives a packet.
func (r *clockPeer) receives() packet {
	r.t.Helper()
	select {
	case p := <-r.sent:
		return p
	case <-time.After(time.Hour):
		r.t.Fatalf("it sends nothing for an hour: %+v", r.s.Status())
		return packet{}
	}
}

// clocked runs a test of a session with a clock of its own.
func clocked(t *testing.T, test func(t *testing.T, terms Terms)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, loopback(1)) })
}

func TestASessionThatNobodyLooksAtGoesOnSendingAndForgetsNoLoss(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		r := played(t, terms)
		r.comesUp()
		for n := uint64(1); n <= 3; n++ { // nobody receives from Changed, nor asks for the status
			d := r.next(false)
			d.state, d.poll = Down, false
			r.says(d)
			for r.hears().state != Down {
				continue
			}
			r.state = Down
			for r.state != Up || r.poll {
				r.answer()
			}
			r.answer()
			if st := r.s.Status(); st.State != Up || st.Losses != n || st.LastLoss != NeighborDown {
				t.Fatalf("after %d losses: %+v", n, st)
			}
		}
		<-r.s.Changed()
		select {
		case <-r.s.Changed():
			t.Error("changes that came together gave two values")
		default:
		}
	})
}

func TestAPeerThatAsksForDemandModeIsLeftInPeace(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		r := played(t, terms)
		r.comesUp()
		demand := r.next(false)
		demand.demand, demand.poll = true, false
		r.says(demand)
		synctest.Wait()
		for len(r.sent) > 0 { // before it was asked
			<-r.sent
		}
		for range 4 {
			time.Sleep(r.detectionTime() / 2)
			r.says(demand)
		}
		if synctest.Wait(); len(r.sent) > 0 || r.s.Status().State != Up {
			t.Errorf("it sent %d packets: %+v", len(r.sent), r.s.Status())
		}
		demand.poll = true // what the peer asks is answered still
		r.says(demand)
		if p := r.hears(); !p.final || p.state != Up {
			t.Errorf("a poll is answered with %+v", p)
		}
		demand.poll, demand.demand = false, false
		r.says(demand)
		r.hears()
		r.hears()
	})
}

func TestTwoMachinesWatchEachOther(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		other := terms
		other.Local, other.Remote = terms.Remote, terms.Local
		var a, b *Session
		a = without(t, terms, func(data []byte) { b.arrives(read(t, data)) })
		again := func() {
			b = without(t, other, func(data []byte) { a.arrives(read(t, data)) })
			b.Begin()
			time.Sleep(10 * time.Second)
			for end, s := range map[string]*Session{"one": a, "the other": b} {
				if st := s.Status(); st.State != Up || st.Losses > 0 {
					t.Errorf("%s is not up: %+v", end, st)
				}
			}
		}
		a.Begin()
		again()
		b.Close(t.Context(), 0)
		if synctest.Wait(); a.Status().State == Up || a.Status().Losses > 0 {
			t.Errorf("the other ended, and it has %+v", a.Status())
		}
		again()

		before := a.Status()
		b.Close(t.Context(), time.Minute) // for the process that follows
		time.Sleep(50 * time.Second)
		if now := a.Status(); now.State != Up {
			t.Errorf("nobody is there, and it did not wait: %+v", now)
		}
		if again(); a.Status() != before {
			t.Errorf("a hand-over was noticed: %+v, and was %+v", a.Status(), before)
		}
	})
}

func TestAnEndIsNotLongerThanItsContext(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		terms.Interval, terms.Multiplier = 5*time.Second, 10
		r := played(t, terms)
		r.s.Begin()
		for r.s.Status().State != Up {
			p := r.hears()
			r.hear(p, time.Now())
			r.says(r.next(false))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begin := time.Now()
		r.s.Close(ctx, time.Minute) // the peer does not agree
		if took := time.Since(begin); took != 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		for r.hears().state != AdminDown {
			continue
		}
		r.s.Close(t.Context(), 0) // which is no more than the first
	})
}

func TestTimersChangeWhileTheSessionIsUp(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		r := played(t, terms)
		r.comesUp()
		before := r.s.Status()
		next := Timers{Interval: 250 * time.Millisecond, Multiplier: 7}
		if err := r.s.SetTimers(next); err != nil {
			t.Fatal(err)
		}
		for tries := 1; ; tries++ {
			p := r.answer()
			if p.minTx == next.Interval && p.minRx == next.Interval && p.multiplier == next.Multiplier && !p.poll {
				break
			}
			if tries == 100 {
				t.Fatalf("it sends %+v", p)
			}
		}
		if now := r.s.Status(); now != before || r.s.Terms().Timers != next {
			t.Errorf("%+v, and was %+v; its terms are %+v", now, before, r.s.Terms())
		}
		if err := r.s.SetTimers(Timers{}); !errors.Is(err, ErrTerms) {
			t.Errorf("no timers at all: %v", err)
		}
	})
}

func TestANewStateIsSentAtOnce(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		terms.Interval = time.Minute
		r := played(t, terms)
		r.s.Begin()
		r.hears()
		ours := uint32(0)
		for _, step := range []struct{ said, want State }{{Down, Init}, {Init, Up}, {Down, Down}} {
			begin := time.Now()
			r.says(packet{state: step.said, multiplier: 3, mine: 4711, yours: ours, minTx: time.Second, minRx: time.Second})
			p := r.hears()
			if ours = p.mine; p.state != step.want || time.Since(begin) > 0 {
				t.Errorf("told of %v it sends %+v after %v, want %v at once", step.said, p, time.Since(begin), step.want)
			}
		}
	})
}

func TestASessionThatIsUpAsksThatOthersBeUsed(t *testing.T) {
	clocked(t, func(t *testing.T, terms Terms) {
		r := played(t, terms)
		r.s.SetDiagnostic(ConcatenatedPathDown) // before it comes up
		r.s.BeginAfter(0)
		if p := r.answer(); p.diagnostic != NoDiagnostic {
			t.Errorf("before it is up it says %v", p.diagnostic)
		}
		for r.s.Status().State != Up || r.poll {
			r.answer()
		}
		if p := r.answer(); p.state != Up || p.diagnostic != ConcatenatedPathDown {
			t.Errorf("it sends %+v", p)
		}
		before := time.Now()
		r.s.SetDiagnostic(NoDiagnostic)
		for r.answer().diagnostic != NoDiagnostic {
			continue
		}
		if took := time.Since(before); took > 0 || r.s.Status().State != Up {
			t.Errorf("it says so after %v: %+v", took, r.s.Status())
		}
	})
}
