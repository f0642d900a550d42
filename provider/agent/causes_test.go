package agent

import (
	"fmt"
	"math/rand"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/sorted"
)

// sessionAgent is an agent that wants sessions with these routers, and its pod CIDR announced.
func sessionAgent(states ...bgp.SessionState) *Agent {
	a := &Agent{routers: routers{sessions: states, down: map[netip.Addr]bool{}}}
	cidr := netip.MustParsePrefix("10.244.1.0/24")
	a.inputs.Self.PodCIDRs = []netip.Prefix{cidr}
	for _, s := range states {
		a.planned.plan.BGP.Sessions = append(a.planned.plan.BGP.Sessions, bgp.SessionConfig{SessionPlan: advertise.SessionPlan{
			Session: inventory.Session{Router: s.Router, RouterAddr: s.Addr}, Advertisements: sorted.Of(advertise.Advertisement{Prefix: cidr}),
		}})
	}
	return a
}

func sessionState(router, addr string, cause bgp.Cause) bgp.SessionState {
	s := bgp.SessionState{Key: bgp.Key{Router: router, Addr: vip(addr)}, Cause: cause, Up: cause == bgp.CauseNone}
	if s.Up {
		s.Announced = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}
	}
	return s
}

func TestTheConditionNamesTheCauseOfEachSessionThatIsDown(t *testing.T) {
	noPods := sessionState("a", "10.0.0.1", bgp.CauseNone)
	noPods.Announced = nil
	var many []bgp.SessionState
	for i := range 12 {
		many = append(many, sessionState("tor", fmt.Sprintf("10.0.0.%d", i+11), bgp.NoAnswer))
	}
	for _, tt := range []struct {
		what      string
		states    []bgp.SessionState
		want      string
		noSession bool
	}{
		{"all are up", []bgp.SessionState{sessionState("a", "10.0.0.1", "")}, "routes 0/0, sessions 1/1", false},
		{"one is down", []bgp.SessionState{sessionState("a", "10.0.0.1", ""), sessionState("b", "10.0.0.2", bgp.ASNMismatch)}, "routes 0/0, sessions 1/2: b/10.0.0.2 ASNMismatch", false},
		{"all are down", []bgp.SessionState{sessionState("b", "fd00::2", bgp.Refused), sessionState("b", "10.0.0.2", bgp.NoAnswer), sessionState("a", "10.0.0.1", bgp.ASNMismatch)},
			"routes 0/0, sessions 0/3: a/10.0.0.1 ASNMismatch, b/10.0.0.2 NoAnswer, b/fd00::2 Refused", true},
		{"one is up and was not told all pod CIDRs", []bgp.SessionState{noPods}, "routes 0/0, sessions 0/1 with all pod CIDRs: a/10.0.0.1 lacks pod CIDRs", false},
		{"more are down than have room", many, "routes 0/0, sessions 0/12: " +
			"tor/10.0.0.11 NoAnswer, tor/10.0.0.12 NoAnswer, tor/10.0.0.13 NoAnswer, tor/10.0.0.14 NoAnswer, tor/10.0.0.15 NoAnswer, tor/10.0.0.16 NoAnswer, tor/10.0.0.17 NoAnswer, tor/10.0.0.18 NoAnswer, and 4 more", true},
	} {
		c := sessionAgent(tt.states...).tally().Statement().Condition()
		if c.Message != tt.want || lb.ParseReport(c.Message).NoSessionIsUp() != tt.noSession {
			t.Errorf("%s:\ngot  %s (no session: %v)\nwant %s (%v)", tt.what, c.Message, lb.ParseReport(c.Message).NoSessionIsUp(), tt.want, tt.noSession)
		}
		if got := sessionAgent(tt.states...).tally().Counts().Numbers(); strings.Contains(got, ":") {
			t.Errorf("%s: /status has the causes with each session, and here again: %s", tt.what, got)
		}
	}
}

// TestTheConditionsMessageIsTheSameInWhateverOrder has names of any length, and counters that change.
func TestTheConditionsMessageIsTheSameInWhateverOrder(t *testing.T) {
	causes := []bgp.Cause{bgp.CauseNone, bgp.NoAnswer, bgp.Flapping, bgp.SessionTaken}
	rapid.Check(t, func(t *rapid.T) {
		var states []bgp.SessionState
		for i := range rapid.IntRange(0, 20).Draw(t, "sessions") {
			name := rapid.StringMatching(`[a-z]{1,80}`).Draw(t, "router")
			states = append(states, sessionState(name, fmt.Sprintf("10.0.0.%d", i), rapid.SampledFrom(causes).Draw(t, "cause")))
		}
		before := sessionAgent(states...).tally().Statement().Condition()
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		for i := range states {
			s := &states[i]
			s.Losses, s.Flaps, s.Accepted, s.Since, s.HeldUntil, s.Detail = 7, 3, 9, time.Now(), time.Now(), fmt.Sprint("pid ", i)
		}
		if after := sessionAgent(states...).tally().Statement().Condition(); after != before {
			t.Fatalf("got %v, before %v", after, before)
		}
		if most := len("routes 0/0, sessions 10/20: , and 20 more") + 512; len(before.Message) > most {
			t.Fatalf("%d bytes: %s", len(before.Message), before.Message)
		}
	})
}
