package onlink

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/uptime"
)

// quiet is a link without a socket, that claims one address and knows one machine.
func quiet() *link {
	l := newLink(New(Options{Log: logr.Discard()}), Link{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: netip.MustParseAddr("192.0.2.1")})
	l.set(Config{Link: l.config.Link, Claims: []netip.Addr{vip4}, Machines: []netip.Addr{him4}, AnnounceEvery: time.Minute})
	l.learn(him4, l.machines[him4], macA, 0)
	return l
}

func told(l *link) bool {
	select {
	case <-l.responder.changed:
		return true
	default:
		return false
	}
}

func TestABurstIsFollowedByAPace(t *testing.T) {
	var s schedule
	s.begin(10 * time.Second)
	s.pace = time.Minute
	var at []time.Duration
	for range 8 {
		at = append(at, s.due-10*time.Second)
		s.advance(s.due)
	}
	want := append(burst[:], burst[5]+time.Minute, burst[5]+2*time.Minute)
	if !slices.Equal(at, want) {
		t.Errorf("got %v, want %v", at, want)
	}
	s.setPace(0, 0)
	if s.due != never {
		t.Error("without a pace:", s.due)
	}
	s.begin(0)
	s.advance(2 * time.Second) // what was missed is not made up for
	if s.due != burst[4] {
		t.Error("after two seconds away:", s.due)
	}
}

func TestAStrangerThatFollowsAnotherOneAtOnceIsNamedToo(t *testing.T) {
	l := quiet()
	frame := func(mac MAC) packet { return packet{mac: mac, sender: vip4, asserts: vip4} }
	first, second := MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}
	begin := uptime.Now()
	l.onAssertion(frame(first), begin)
	if !told(l) {
		t.Fatal("the first is not told")
	}
	for after := range 10 {
		l.onAssertion(frame(second), begin+time.Duration(after)*notifyInterval/10)
		if told(l) {
			t.Errorf("told again after %d tenths of the interval", after)
		}
	}
	l.onAssertion(frame(second), begin+notifyInterval)
	if !told(l) {
		t.Error("the second is not told once the interval is over")
	}
	l.onAssertion(frame(second), begin+2*notifyInterval)
	if told(l) {
		t.Error("the second is told twice")
	}
}

func TestAConflictBeginsLastsAndEnds(t *testing.T) {
	l := quiet()
	v := l.vips[vip4]
	strange := packet{mac: macB, sender: vip4, asserts: vip4}
	begin := uptime.Now()
	l.onAssertion(strange, begin)
	if want := (Conflict{MAC: macB, Since: begin, Last: begin}); v.conflict != want || !told(l) {
		t.Fatalf("got %+v, want %+v", v.conflict, want)
	}
	l.onAssertion(strange, begin+9*time.Second)
	if v.defended != begin || told(l) {
		t.Error("defended again, or told, after 9 s")
	}
	l.onAssertion(strange, begin+10*time.Second)
	if want := (Conflict{MAC: macB, Since: begin, Last: begin + 10*time.Second}); v.conflict != want || v.defended != begin+10*time.Second {
		t.Errorf("after 10 s: %+v, defended at %v", v.conflict, v.defended-begin)
	}
	last := v.conflict.Last
	if next := l.recheck(vip4, v, last+34*time.Second); next > last+conflictEnds || v.conflict.MAC != macB {
		t.Error("over too early, or looked at too late:", v.conflict, next-last)
	}
	l.recheck(vip4, v, last+conflictEnds)
	if (v.conflict != Conflict{}) || !told(l) {
		t.Error("not over:", v.conflict)
	}
}

func TestAStrangerThatAnswersAsAMachineIsNone(t *testing.T) {
	l := quiet()
	now := uptime.Now()
	l.onAssertion(packet{mac: macB, sender: vip4, asserts: vip4}, now)
	if m := l.machines[him4]; m.due != now {
		t.Errorf("the machine is asked in %v only", m.due-now)
	}
	l.onAssertion(packet{mac: macB, sender: him4, asserts: him4, answers: true}, now+time.Millisecond)
	v := l.vips[vip4]
	if (v.conflict != Conflict{}) || v.heard != (Heard{Machine: him4, MAC: macB, At: now}) {
		t.Errorf("%+v, %+v", v.conflict, v.heard)
	}
	l.set(Config{Link: l.config.Link, Claims: []netip.Addr{vip4}, AnnounceEvery: time.Minute})
	l.onAssertion(packet{mac: macB, sender: vip4, asserts: vip4}, now+time.Second)
	if v.conflict.MAC != macB {
		t.Error("a machine that is gone is no stranger")
	}
}

func TestAStrangerMayBeAMachineThatHasNotAnsweredYet(t *testing.T) {
	l := quiet()
	l.setMachines([]netip.Addr{him4, netip.MustParseAddr("192.0.2.8")}, 0)
	v, begin := l.vips[vip4], uptime.Now()
	l.onAssertion(packet{mac: macB, sender: vip4, asserts: vip4}, begin)
	if told(l) || v.defended != 0 || l.state().Addresses[0].Reason != "" {
		t.Error("told at once:", l.state())
	}
	if next := l.recheck(vip4, v, begin+suspicion-1); next != begin+suspicion || told(l) {
		t.Error("looked at again after", next-begin)
	}
	l.recheck(vip4, v, begin+suspicion)
	if s := l.state().Addresses[0]; !told(l) || s.Reason != lb.AddressConflict || s.Conflict.Since != begin || v.defended == 0 {
		t.Errorf("not told: %+v", s)
	}
}

func TestAMachineKeepsTheMACsThatItAnswersBy(t *testing.T) {
	l := quiet()
	m := l.machines[him4]
	by := func(mac MAC, at time.Duration) {
		l.onAssertion(packet{mac: mac, sender: him4, asserts: him4, answers: true}, at)
	}
	by(macA, time.Minute)
	by(macB, 2*time.Minute)
	if m.latest() != macB || len(m.macs) != 2 || m.due != 3*time.Minute {
		t.Errorf("%v, due %v", m.macs, m.due)
	}
	by(macB, time.Minute+macForgotten)
	if _, has := m.macs[macA]; has {
		t.Error("the first MAC is still the machine's:", m.macs)
	}
}

func TestAnotherMachinesClaimIsToldOnceASecond(t *testing.T) {
	l := quiet()
	v := l.vips[vip4]
	tells := 0
	for at := time.Duration(0); at < 3*time.Second; at += 10 * time.Millisecond {
		l.hear(v, Heard{Machine: him4, MAC: macB, At: time.Hour + at})
		if told(l) {
			tells++
		}
	}
	if tells != 3 || v.heard.At != time.Hour+2990*time.Millisecond {
		t.Error(tells, v.heard)
	}
}

func TestWhatCannotBeIsRefusedAndTheRestIsDone(t *testing.T) {
	subnet, self := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParseAddr("192.0.2.1")
	addr := netip.MustParseAddr
	links, err := validConfigs([]Config{
		{Link: Link{Subnet: subnet, Self: self}, Claims: []netip.Addr{addr("192.0.2.9"), addr("192.0.2.8"), addr("192.0.2.9"), self, addr("198.51.100.1"), addr("192.0.2.2"), {}},
			Machines: []netip.Addr{addr("192.0.2.2")}, Watched: []netip.Addr{addr("192.0.2.8"), addr("192.0.2.7")}},
		{Link: Link{Subnet: subnet, Self: self}},
		{Link: Link{Subnet: netip.MustParsePrefix("192.0.2.1/24"), Self: self}},
		{Link: Link{Subnet: netip.MustParsePrefix("198.51.100.0/24"), Self: self}},
		{},
	})
	got := links[subnet]
	if len(links) != 1 || !slices.Equal(got.Claims, []netip.Addr{addr("192.0.2.8"), addr("192.0.2.9")}) || !slices.Equal(got.Watched, []netip.Addr{addr("192.0.2.7")}) || len(got.Machines) != 1 {
		t.Errorf("%+v", links)
	}
	for _, part := range []string{
		"link 192.0.2.0/24: 192.0.2.1 cannot be claimed", "198.51.100.1 cannot be claimed", "192.0.2.2 cannot be claimed", "invalid IP cannot be claimed",
		"192.0.2.8 cannot be watched", "link 192.0.2.0/24: the subnet is given twice", "link 192.0.2.1/24: the subnet is not one",
		"link 198.51.100.0/24: this machine's address 192.0.2.1 is not in it",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

func TestAClosedResponderSaysSo(t *testing.T) {
	r := New(Options{Log: logr.Discard()})
	r.Close()
	r.Close()
	if err := r.Set(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := r.Ask(t.Context(), netip.MustParsePrefix("192.0.2.0/24"), vip4, 1, time.Second); err == nil || err.Error() != "link 192.0.2.0/24 is not set" {
		t.Error(err)
	}
}
