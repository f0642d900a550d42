package ipam

import (
	"net/netip"
	"testing"

	"plinth.dev/plinth/lb"
)

// TestAnAnswerIsDoubtfulWhereALaterDeletionWasToldMeanwhile is of an answer that shows object "a" of version 100.
func TestAnAnswerIsDoubtfulWhereALaterDeletionWasToldMeanwhile(t *testing.T) {
	addr, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.6")
	object := func(a netip.Addr, uid, version string) Object {
		return Object{Addr: a, UID: uid, Version: version, Holders: []lb.ServiceKey{{Namespace: "default", Name: uid}}}
	}
	deleted := func(a netip.Addr, uid, version string) func(*State) {
		return func(s *State) { s.ObserveDeleted(a, uid, version, noon) }
	}
	added := func(o Object) func(*State) { return func(s *State) { s.Observe(o, nil, false) } }
	for name, tt := range map[string]struct {
		before, meanwhile []func(*State)
		doubtful          bool
	}{
		"nothing is told":                     {nil, nil, false},
		"it was told gone":                    {nil, []func(*State){added(object(addr, "a", "100")), deleted(addr, "a", "101")}, true},
		"another was, later":                  {nil, []func(*State){deleted(other, "b", "101")}, true},
		"another was, earlier":                {nil, []func(*State){deleted(other, "b", "99")}, false},
		"another was before the request":      {[]func(*State){deleted(other, "b", "101")}, nil, false}, // of an etcd that was restored
		"it is known":                         {[]func(*State){added(object(addr, "a", "90"))}, []func(*State){deleted(other, "b", "101")}, false},
		"a successor is known":                {nil, []func(*State){deleted(addr, "a", "101"), added(object(addr, "c", "102"))}, true},
		"a read found that there is none":     {nil, []func(*State){deleted(addr, "", "")}, false}, // the watch tells of it, if it is gone
		"a list had it not":                   {nil, []func(*State){func(s *State) { s.ObserveList("101") }}, true},
		"a list was older":                    {nil, []func(*State){func(s *State) { s.ObserveList("99") }}, false},
		"a list of a restored etcd was older": {[]func(*State){deleted(other, "b", "900")}, []func(*State){func(s *State) { s.ObserveList("101") }}, false},
	} {
		s := NewState()
		for _, f := range tt.before {
			f(s)
		}
		asked := s.DeletionsTold()
		for _, f := range tt.meanwhile {
			f(s)
		}
		if got := s.IsDoubtful(object(addr, "a", "100"), asked); got != tt.doubtful {
			t.Errorf("%s: doubtful %v, want %v", name, got, tt.doubtful)
		}
	}
}
