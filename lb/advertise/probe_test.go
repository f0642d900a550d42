package advertise

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
)

func TestAProbeThatCouldNotBeSentIsSentAgain(t *testing.T) {
	vip, now := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Served: true}, time.Hour
	s := NewSuccession(nil)
	step := func() Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}}}, []LinkVIP{vip})
	}
	step()
	for name, before := range map[string]Found{"at first": {Failed: true}, "after a foreign host was found": {Stranger: true}} {
		s.Probed(now, vip.VIP, before)
		now += aside
		step()
		s.Probed(now, vip.VIP, Found{Failed: true})
		if out := step(); len(out.Probes) != 1 || len(out.Claims) > 0 || out.Owners[0].Reason != lb.NoMajority {
			t.Fatalf("%s: a failed probe is followed by %+v", name, out)
		}
	}
	s.Probed(now, vip.VIP, Found{})
	step()
	now += careful
	s.Probed(now, vip.VIP, Found{Failed: true})
	if out := step(); len(out.Claims) != 1 {
		t.Fatalf("a failed probe takes a VIP away that this machine owns: %+v", out)
	}
}

func TestAnAddressThatIsNoVIPOfTheSegmentIsNotAnnounced(t *testing.T) {
	s, other := NewSuccession(nil), netip.MustParseAddr("192.0.2.2")
	s.Step(time.Hour, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}}}, []LinkVIP{{VIP: netip.MustParseAddr("192.0.2.1"), Served: true}})
	if s.Probed(time.Hour, other, Found{Machine: "b"}) || s.Heard(time.Hour, other, "b") {
		t.Error("it is announced")
	}
}
