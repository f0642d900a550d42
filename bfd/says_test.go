package bfd

import (
	"testing"
	"time"

	"plinth.dev/plinth/uptime"
)

func TestASessionThatIsUpAsksThatOthersBeUsed(t *testing.T) {
	t.Parallel()
	terms := loopback(110)
	terms.Interval = 10 * time.Second // what is said at once comes sooner
	r := listens(t, terms)
	r.s.SetDiagnostic(ConcatenatedPathDown) // before it comes up
	r.s.BeginAfter(0)
	if p := r.answer(0); p.diagnostic != NoDiagnostic {
		t.Errorf("before it is up it says %v", p.diagnostic)
	}
	for r.s.Status().State != Up || r.poll {
		r.answer(0)
	}
	if p := r.answer(0); p.state != Up || p.diagnostic != ConcatenatedPathDown {
		t.Errorf("it sends %+v", p)
	}
	before := time.Now()
	r.s.SetDiagnostic(NoDiagnostic)
	for r.answer(0).diagnostic != NoDiagnostic {
		continue
	}
	if took := time.Since(before); took > terms.Interval/2 || r.s.Status().State != Up {
		t.Errorf("after %v: %+v", took, r.s.Status())
	}
}

func TestWhatThePeerSaysIsTold(t *testing.T) {
	t.Parallel()
	r := up(t, loopback(111))
	for _, want := range []Diagnostic{ConcatenatedPathDown, NoDiagnostic} {
		r.upDiagnostic = want
		r.answer(0)
		eventually(t, r.s, "told", func(s Status) bool { return s.Says == want && s.State == Up && s.Peer == Up })
	}
	h, now := r.s.Heard(), uptime.Now()
	if h.Last == 0 || h.LastUp != h.Last || now-h.Last > 5*time.Second || now < h.Last || h.Detection != 2*time.Second {
		t.Errorf("at %v: %+v", now, h)
	}
	end := r.next(false)
	end.state = AdminDown
	r.send(end, r.port, maxTTL, 0)
	eventually(t, r.s, "ended", func(s Status) bool { return s.Peer == AdminDown })
	if after := r.s.Heard(); after.Last <= h.Last || after.LastUp != h.LastUp {
		t.Errorf("%+v, and was %+v", after, h)
	}
}
