package ipam

import (
	"fmt"
	"net/netip"
	"plinth.dev/plinth/lb"
	"slices"
	"testing"
	"time"
)

func TestReleasedAddressRestsForItsFormerOwner(t *testing.T) {
	const (
		yaml  = `    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.3: x/y}}`
		later = `    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.3: x/y, 192.0.2.0: x/z}}`
	)
	released := func(t *testing.T) *Ledger {
		l := ledgerOf(t, yaml)
		apply(l, service("d/one", "4"), noon)
		l.Release(netip.MustParseAddr("192.0.2.0"), lb.ServiceKey{Namespace: "d", Name: "one"}, noon)
		return l
	}
	for _, tt := range []struct {
		name    string
		held    int // Services that came since
		after   time.Duration
		request Request
		want    string
	}{
		{"another gets another", 0, time.Minute, service("d/two", "4"), "192.0.2.1"},
		{"the former owner gets it", 1, time.Minute, service("d/one", "4"), "192.0.2.0"},
		{"another that asks for it gets it", 0, time.Minute, with(service("d/two", "4"), ips("192.0.2.0")), "192.0.2.0"},
		{"another of another namespace that asks for it does not", 0, time.Minute, with(service("e/two", "4"), ips("192.0.2.0")), "refused a:AddressResting"},
		{"another of another namespace that asks for it gets it at the end", 0, QuarantineTime, with(service("e/two", "4"), ips("192.0.2.0")), "192.0.2.0"},
		{"one that it is reserved for since gets it by asking", 0, time.Minute, with(service("x/z", "4"), ips("192.0.2.0")), "192.0.2.0"},
		{"and without asking", 0, time.Minute, service("x/z", "4"), "192.0.2.0"},
		{"another gets it if nothing else is free", 2, time.Minute, service("d/two", "4"), "192.0.2.0"},
		{"just before the end", 0, QuarantineTime - 1, service("d/two", "4"), "192.0.2.1"},
		{"at the end", 0, QuarantineTime, service("d/two", "4"), "192.0.2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := released(t)
			for i := range tt.held {
				apply(l, service(fmt.Sprintf("d/other%d", i), "4"), noon)
			}
			if tt.request.Service.Name == "z" {
				l.SetPools(pools(t, later))
			}
			if got := brief(Allocate(l, tt.request, noon.Add(tt.after))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAddressThatCouldNotBeTakenRestsOn(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30, "2001:db8::/126"]}`)
	one, other := service("d/one", "46"), service("d/other", "46")
	apply(l, other, noon)
	apply(l, one, noon)
	for _, a := range slices.Clone(l.Holds(one.Service)) {
		l.Release(a, one.Service, noon)
	}
	for _, a := range slices.Clone(l.Holds(other.Service)) { // what is lower is free
		l.Revert(a, other.Service)
	}
	for range 2 {
		d := apply(l, one, noon)
		if got := brief(d); got != "192.0.2.1 2001:db8::1" {
			t.Fatalf("its former owner gets %s", got)
		}
		for _, v := range d.VIPs {
			l.Revert(v.Addr, one.Service)
		}
	}
	a := netip.MustParseAddr("192.0.2.1")
	l.Hold(a, "a", one.Holder)
	l.HeldSince(a, noon)
	l.Revert(a, one.Service) // it was held: that it rested once is past
	if got := l.Quarantined(); len(got) != 1 || got[0].Addr != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("what rests is %v", got)
	}
	d := apply(l, one, noon)
	Allocate(l, other, noon.Add(QuarantineTime)) // as time passes while it is being taken
	for _, v := range d.VIPs {
		l.Revert(v.Addr, one.Service)
	}
	if got := brief(Allocate(l, one, noon.Add(QuarantineTime))); got != "192.0.2.0 2001:db8::" || len(l.Quarantined()) > 0 {
		t.Errorf("once its rest is over its former owner gets %s, and %v rests", got, l.Quarantined())
	}
}

func TestAddressThatIsReservedWhileItRestsIsNobodyElses(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/32], reserved: {192.0.2.0: x/y}}`)
	l.Quarantine(Quarantined{Addr: netip.MustParseAddr("192.0.2.0"), Owner: lb.ServiceKey{Namespace: "d", Name: "one"}, Until: noon.Add(QuarantineTime)})
	for who, want := range map[string]string{"d/other": "refused a:PoolExhausted", "d/one": "refused a:PoolExhausted", "x/y": "192.0.2.0"} {
		if got := brief(Allocate(l, service(who, "4"), noon)); got != want {
			t.Errorf("%s: %s, want %s", who, got, want)
		}
	}
}

func TestAddressThatWasBlockedMeanwhileRestsOn(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30]}`)
	a, one, other := netip.MustParseAddr("192.0.2.0"), service("d/one", "4"), service("d/other", "4")
	apply(l, one, noon)
	l.Release(a, one.Service, noon)
	l.Block(a)
	l.Block(a) // as often as somebody says so
	if got := brief(Allocate(l, one, noon)); got != "192.0.2.1" {
		t.Errorf("while it is blocked its former owner gets %s", got)
	}
	l.Unblock(a)
	if got := brief(Allocate(l, other, noon)); got != "192.0.2.1" {
		t.Errorf("another gets %s", got)
	}
	if got := brief(Allocate(l, one, noon)); got != "192.0.2.0" {
		t.Errorf("its former owner gets %s", got)
	}
	if got := brief(Allocate(l, other, noon.Add(QuarantineTime))); got != "192.0.2.0" {
		t.Errorf("at the end of the rest another gets %s", got)
	}
}

// TestRestOfAnAddressThatIsBlockedIsKnown has another Ledger learn what rests while an address
// is blocked, as after a restart, before or after it learns that.
func TestRestOfAnAddressThatIsBlockedIsKnown(t *testing.T) {
	const yaml = `    - {name: a, addresses: [192.0.2.0/30]}`
	l, a, one := ledgerOf(t, yaml), netip.MustParseAddr("192.0.2.0"), service("d/one", "4")
	apply(l, one, noon)
	l.Release(a, one.Service, noon)
	l.Block(a)
	want := []Quarantined{{Addr: a, Owner: one.Service, Until: noon.Add(QuarantineTime)}}
	if got := l.Quarantined(); !slices.Equal(got, want) {
		t.Fatalf("while it is blocked %v rests, want %v", got, want)
	}
	for _, blockedFirst := range []bool{false, true} {
		next := ledgerOf(t, yaml)
		if blockedFirst {
			next.Block(a)
		}
		next.Quarantine(want[0])
		next.Block(a)
		if got := next.Quarantined(); !slices.Equal(got, want) {
			t.Errorf("blocked first %t: %v rests, want %v", blockedFirst, got, want)
		}
		next.Unblock(a)
		if got := brief(Allocate(next, service("d/other", "4"), noon)); got != "192.0.2.1" {
			t.Errorf("blocked first %t: another gets %s", blockedFirst, got)
		}
	}
}

// A leader that stood still sees neither that another one gave an address that it had released
// itself, nor that it came back: it reads so when it writes down what rests.
func TestAnAddressRestsForWhoHadItLastWhicheverLeaderKnows(t *testing.T) {
	s := NewState()
	s.SetPools(pools(t, `    - {name: a, addresses: [192.0.2.0/30]}`))
	of := func(name string, ends time.Time) Quarantined {
		return Quarantined{Addr: netip.MustParseAddr("192.0.2.1"), Owner: lb.ServiceKey{Namespace: "d", Name: name}, Until: ends}
	}
	first, last := of("first", noon.Add(time.Minute)), of("last", noon.Add(2*time.Minute))
	for _, read := range []Quarantined{first, last, first} {
		s.Quarantine([]Quarantined{read}, noon)
	}
	if all, _ := s.Quarantined(noon); !slices.Equal(all, []Quarantined{last}) {
		t.Errorf("it rests for %v", all)
	}
}
