package advertise

import (
	"net/netip"
	"testing"
	"time"
)

// Nothing passes between a and b, and c hears both: neither of these would look, since each is the owner to itself.
func TestAThirdMachineLooksWhereTwoWereHeardToClaimAVIP(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}
	seg := Segment{Self: "c", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}}
	s, now := NewSuccession(nil), time.Hour
	auditor := func() string { return s.Step(now, seg, []LinkVIP{vip}).Owners[0].Auditor }
	if got := auditor(); got != "b" {
		t.Fatalf("%q looks whether a answers, want b", got)
	}
	s.Heard(now, vip.VIP, "a")
	s.Heard(now+time.Second, vip.VIP, "b")
	now += 2 * time.Second
	if got := auditor(); got != "c" {
		t.Errorf("%q looks where a and b claim it, want c", got)
	}
	now += lately
	s.Heard(now, vip.VIP, "b")
	if got := auditor(); got != "a" {
		t.Errorf("%q looks where a has been silent for long, want a", got)
	}
}

func TestAMachineThatHandedAVIPOverLeavesItToOthersToLook(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}
	seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}}
	s, now := NewSuccession(nil), time.Hour
	s.Step(now, seg, []LinkVIP{vip})
	s.Probed(now, vip.VIP, Found{})
	if out := s.Step(now, seg, []LinkVIP{vip}); len(out.Claims) != 1 {
		t.Fatalf("it does not answer: %+v", out)
	}
	vip.Homes, vip.Pinned = []string{"b", "a", "c"}, true
	s.Step(now, seg, []LinkVIP{vip})
	s.Heard(now, vip.VIP, "b")
	for after, want := range map[time.Duration]string{time.Second: "c", lately + time.Second: "a"} {
		if out := s.Step(now+after, seg, []LinkVIP{vip}); out.Owners[0].Owner != "b" || out.Owners[0].Auditor != want {
			t.Errorf("%v after b has it: %+v, want the auditor %s", after, out.Owners[0], want)
		}
	}
}
