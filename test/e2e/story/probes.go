package story

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// Probing sends the client's requests to a VIP for the length of a story. Its
// report begins once all is well.
func Probing(t *testing.T, l *lab.Lab, vip netip.Addr, rate int) *lab.Prober {
	t.Helper()
	return ProbingURL(t, l, lab.URL(vip, lab.WebPort), rate)
}

// ProbingURL is Probing for a URL.
func ProbingURL(t *testing.T, l *lab.Lab, url string, rate int) *lab.Prober {
	t.Helper()
	p := l.Probe(t.Context(), url, rate)
	t.Cleanup(func() { p.Stop() })
	must(t, p.Steady(t.Context(), time.Second))
	p.Forget()
	return p
}

// NoneLost ends the probes: none of their connections was lost.
func NoneLost(t *testing.T, probes map[netip.Addr]*lab.Prober) {
	t.Helper()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if r.Sent == 0 || r.Lost+r.Slow > 0 {
			t.Errorf("%s: %d of %d new connections were lost, and %d came late: %v", vip, r.Lost, r.Sent, r.Slow, r.Losses)
		}
	}
}

// NoneLostButByMoves ends the probes: none of their connections was lost but those that were under way when a router changed its
// route, as [RouterMoves] notes. A machine that comes to announce a VIP beside others is such a change.
func NoneLostButByMoves(t *testing.T, probes map[netip.Addr]*lab.Prober, moved map[netip.Addr][]lab.Change) {
	t.Helper()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if lost := r.NotMoved(moved[vip]); r.Sent == 0 || len(lost) > 0 {
			t.Errorf("%s: %d of %d requests were lost, and no router's move explains it: at %v", vip, len(lost), r.Sent, lost)
		}
	}
}

// NoneHarmed ends a probe by connections: to each of so many VIPs some were opened, and no kernel did anything to one of
// them that a client would notice.
func NoneHarmed(t *testing.T, p *lab.TCPProber, vips int) {
	t.Helper()
	reports, err := p.Stop(t.Context())
	must(t, err)
	if len(reports) != vips {
		t.Errorf("connections were opened to %d VIPs, want %d", len(reports), vips)
	}
	for _, r := range reports {
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
}

// LongAnswers is a query whose answer is sent bit by bit for so long: a connection that is
// under way is sure to meet what happens meanwhile.
const LongAnswers = "?" + kubelet.LastsParameter + "=200ms"

// RouterMoves notes when a router changes its route to one of the VIPs.
func RouterMoves(t *testing.T, l *lab.Lab, vips []netip.Addr) (moves func() map[netip.Addr][]lab.Change) {
	t.Helper()
	asked, err := l.RouterMoves(t.Context(), vips)
	must(t, err)
	return func() map[netip.Addr][]lab.Change {
		moved := asked()
		for _, changes := range moved {
			for _, c := range changes {
				t.Log(c.At.Format(time.StampMilli), c.Host, c.Text)
			}
		}
		return moved
	}
}
