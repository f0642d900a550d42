package ipam

import (
	"fmt"
	"net/netip"
	"testing"

	"plinth.dev/plinth/lb"
)

// TestHoldersThatWereNotLookedAtYetDoNotWaitForEachOther: a leader reads of an object whom it names
// before its cache has these Services.
func TestHoldersThatWereNotLookedAtYetDoNotWaitForEachOther(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.5")
	s := NewState()
	s.SetPools(pools(t, `    - {name: public, addresses: [192.0.2.0/28]}`))
	named := func(i int) Request {
		r := with(service(fmt.Sprintf("default/s%d", i), "4"), ips("192.0.2.5"))
		r.Sharing, r.UID, r.Ports = "key", fmt.Sprint(i), []Port{{"TCP", uint16(1000 + i)}}
		return r
	}
	var holders []lb.ServiceKey
	for i := range 3 {
		holders = append(holders, named(i).Service)
	}
	s.Observe(Object{Addr: a, UID: "object", Version: "7", Parent: holders[0], ParentUID: "0", Holders: holders}, nil, false)
	for i := range 4 { // the last one joins them
		r := named(i)
		if i < 3 {
			r.Shown = []netip.Addr{a}
		}
		if d, _ := s.Request(r, noon); brief(d) != "192.0.2.5" {
			t.Errorf("s%d: %s", i, brief(d))
		}
	}
	clash := named(4)
	clash.Ports = named(2).Ports
	if d, _ := s.Request(clash, noon); !d.Refused {
		t.Errorf("one that clashes with a holder: %s", brief(d))
	}
}

// TestAHolderThatClashesMovesOnceItIsLookedAt, whichever of them is looked at first.
func TestAHolderThatClashesMovesOnceItIsLookedAt(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.5")
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		s := NewState()
		s.SetPools(pools(t, `    - {name: public, addresses: [192.0.2.0/28]}`))
		one, two := service("default/one", "4"), service("default/two", "4")
		one.Sharing, two.Sharing = "key", "other"
		both := []Request{one, two}
		s.Observe(Object{Addr: a, UID: "object", Version: "7", Holders: []lb.ServiceKey{one.Service, two.Service}}, nil, false)
		first, _ := s.Request(both[order[0]], noon)
		second, _ := s.Request(both[order[1]], noon)
		if brief(first) != "192.0.2.5" || brief(second) == "192.0.2.5" || second.Refused {
			t.Errorf("%v: %s, %s", order, brief(first), brief(second))
		}
	}
}

// TestOfHoldersThatClashTheOneThatIsNotShownMoves, whichever was edited first: one was made anew with another key, and the
// leader that let the other join had not heard of that when it ended.
func TestOfHoldersThatClashTheOneThatIsNotShownMoves(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.5")
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		s := NewState()
		s.SetPools(pools(t, `    - {name: public, addresses: [192.0.2.0/28]}`))
		both := []Request{service("default/shown", "4"), service("default/anew", "4")}
		both[0].Sharing, both[0].Shown = "key", []netip.Addr{a}
		object := Object{Addr: a, UID: "object", Version: "7", Holders: []lb.ServiceKey{both[1].Service, both[0].Service}}
		s.Load([]Object{object}, []Request{both[order[0]], both[order[1]]})
		anew, _ := s.Request(both[1], noon) // is looked at first
		shown, _ := s.Request(both[0], noon)
		if brief(shown) != "192.0.2.5" || brief(anew) == "192.0.2.5" || anew.Refused {
			t.Errorf("edited in the order %v: %s, %s", order, brief(shown), brief(anew))
		}
	}
}
