package agent

import (
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
)

func TestWhatIsSaidOfSessionsOnTrial(t *testing.T) {
	a4, a6, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.2")
	want := func(addrs ...netip.Addr) (all []bgp.SessionConfig) {
		for _, x := range addrs {
			router := map[netip.Addr]string{a4: "tor-a", a6: "tor-a", b: "tor-b"}[x]
			all = append(all, bgp.SessionConfig{SessionPlan: advertise.SessionPlan{Session: inventory.Session{Router: router, RouterAddr: x}}})
		}
		return all
	}
	only := func(all ...netip.Addr) (out []bgp.SessionState) {
		for _, x := range all {
			router := map[netip.Addr]string{a4: "tor-a", a6: "tor-a", b: "tor-b"}[x]
			out = append(out, bgp.SessionState{Key: bgp.Key{Router: router, Addr: x}, Up: true})
		}
		return out
	}
	have := func(up ...netip.Addr) []bgp.SessionState {
		all := only(a4, a6, b)
		for i := range all {
			all[i].Up = slices.Contains(up, all[i].Addr)
		}
		return all
	}
	trial := &source.Trial{ID: "1", Routers: []string{"tor-a", "tor-b"}}
	for _, tt := range []struct {
		name          string
		before, after []bgp.SessionState
		want          string
	}{
		{"all come up", have(a4, b), have(a4, a6, b), "on trial 1: tor-a up, tor-b up"},
		{"one of both families does not", have(a4, a6, b), have(a4, b), "on trial 1: tor-a down, tor-b up"},
		{"one was down before", have(a4, a6), have(a4, a6), "on trial 1: tor-a up, tor-b down as before"},
		{"one that takes the place of others does not", only(a4, a6), have(a4, a6), "on trial 1: tor-a up, tor-b down"},
		{"and comes up", only(a4, a6), have(a4, a6, b), "on trial 1: tor-a up, tor-b up"},
		{"and does not, where all were down", have()[:2], have(), "on trial 1: tor-a down as before, tor-b down as before"},
		{"that comes up", have(a4, a6), have(a4, a6, b), "on trial 1: tor-a up, tor-b up"},
	} {
		var x tried
		x.begin(trial, tt.before)
		x.begin(trial, tt.after) // a later pass says nothing of before
		x.observe(trial, want(a4, a6, b), tt.after)
		if got := x.said.String(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	var none tried
	none.begin(nil, have(a4))
	if none.observe(nil, want(a4), have(a4)); none.id != "" || none.said.ID != "" {
		t.Errorf("without a trial: %+v", none)
	}
}
