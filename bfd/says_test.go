package bfd

import (
	"testing"
	"time"

	"plinth.dev/plinth/uptime"
)

func TestWhatThePeerSaysIsTold(t *testing.T) {
	t.Parallel()
	r := up(t, loopback(111))
	for _, want := range []Diagnostic{ConcatenatedPathDown, NoDiagnostic} {
		r.upDiagnostic = want
		r.answer()
		eventually(t, r.s, "told", func(s Status) bool { return s.Says == want && s.State == Up && s.Peer == Up })
	}
	h, now := r.s.Heard(), uptime.Now()
	if h.Last == 0 || h.LastUp != h.Last || now-h.Last > 5*time.Second || now < h.Last || h.Detection != 2*time.Second {
		t.Errorf("at %v: %+v", now, h)
	}
	end := r.next(false)
	end.state = AdminDown
	r.says(end)
	eventually(t, r.s, "ended", func(s Status) bool { return s.Peer == AdminDown })
	if after := r.s.Heard(); after.Last <= h.Last || after.LastUp != h.LastUp {
		t.Errorf("%+v, and was %+v", after, h)
	}
}
