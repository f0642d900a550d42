package agent

import (
	"context"
	"fmt"
	"math/rand"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
	"plinth.dev/plinth/wait"
)

// sessionAgent is an agent that wants sessions with these routers, and its pod CIDR announced.
func sessionAgent(states ...bgp.SessionState) *Agent {
	a := &Agent{sessions: states, down: map[netip.Addr]bool{}}
	cidr := netip.MustParsePrefix("10.244.1.0/24")
	a.inputs.Self.PodCIDRs = []netip.Prefix{cidr}
	for _, s := range states {
		a.last.BGP.Sessions = append(a.last.BGP.Sessions, bgp.SessionConfig{SessionPlan: advertise.SessionPlan{
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
		c := sessionAgent(tt.states...).tally().statement().condition()
		if c.Message != tt.want || lb.ParseReport(c.Message).NoSessionIsUp() != tt.noSession {
			t.Errorf("%s:\ngot  %s (no session: %v)\nwant %s (%v)", tt.what, c.Message, lb.ParseReport(c.Message).NoSessionIsUp(), tt.want, tt.noSession)
		}
		if got := sessionAgent(tt.states...).tally().counts().Numbers(); strings.Contains(got, ":") {
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
		before := sessionAgent(states...).tally().statement().condition()
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		for i := range states {
			s := &states[i]
			s.Losses, s.Flaps, s.Accepted, s.Since, s.HeldUntil, s.Detail = 7, 3, 9, time.Now(), time.Now(), fmt.Sprint("pid ", i)
		}
		if after := sessionAgent(states...).tally().statement().condition(); after != before {
			t.Fatalf("got %v, before %v", after, before)
		}
		if most := len("routes 0/0, sessions 10/20: , and 20 more") + 512; len(before.Message) > most {
			t.Fatalf("%d bytes: %s", len(before.Message), before.Message)
		}
	})
}

func TestAConditionThatIsOnlyRewordedIsWrittenOnceInHalfAMinute(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	began := time.Now()
	at := began
	w := newWriter(client, "w1", func() (plan.Node, bool) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		return plan.NodeOf(n), err == nil
	})
	w.clock = func() time.Time { return at }
	says := func(sessions int, cause string) plan.Condition {
		c := tally{Sessions: sessions, SessionsWanted: 2}.statement().condition()
		c.Message += cause
		return c
	}
	for _, step := range []struct {
		after  time.Duration
		c      plan.Condition
		writes int // so far
		wait   time.Duration
	}{
		{0, says(2, ""), 1, 0},
		{time.Second, says(1, ": a Connecting"), 2, 0},      // the status changes
		{6 * time.Second, says(1, ": a ASNMismatch"), 3, 0}, // the first new wording
		{8 * time.Second, says(1, ": a NoAnswer"), 3, 28 * time.Second},
		{20 * time.Second, says(1, ": a Refused"), 3, 16 * time.Second},
		{21 * time.Second, says(1, ": a ASNMismatch"), 3, 0}, // as it is there
		{22 * time.Second, says(1, ": a Refused"), 3, 14 * time.Second},
		{36 * time.Second, says(1, ": a Refused"), 4, 0},
		{40 * time.Second, says(1, ": a NoAnswer"), 4, 26 * time.Second},
		{41 * time.Second, says(1, ": a Refused; on trial 1: a up"), 5, 0},            // nor is what the controller waits for
		{42 * time.Second, says(0, ": a Refused, b Refused; on trial 1: a up"), 6, 0}, // or that no session is up
		{43 * time.Second, says(1, ": a Refused; on trial 1: a up"), 7, 0},
		{44 * time.Second, says(2, ""), 8, 0}, // what others go by is not held back
	} {
		at = began.Add(step.after)
		wait := w.write(t.Context(), step.c)
		writes := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" {
				writes++
			}
		}
		if writes != step.writes || wait != step.wait {
			t.Errorf("after %v: %d writes, the next in %v, want %d and %v", step.after, writes, wait, step.writes, step.wait)
		}
	}
}

// Who reads a condition learns that the agent is there.
func TestAConditionThatStaysIsWrittenEveryFiveMinutesUnlessTheAgentIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
		w := newWriter(client, "w1", func() (plan.Node, bool) {
			n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
			return plan.NodeOf(n), err == nil
		})
		stuck := false
		w.stuck = func() bool { return stuck }
		written := func() (n int) {
			for _, a := range client.Actions() {
				if a.GetVerb() == "patch" {
					n++
				}
			}
			return n
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		w.set(tally{}.statement().condition())
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := written(); n < 12 || n > 14 {
			t.Errorf("written %d times within an hour", n)
		}
		stuck = true
		n := written()
		time.Sleep(time.Hour)
		synctest.Wait()
		if now := written(); now != n {
			t.Errorf("an agent that is stuck has written %d times", now-n)
		}
		cancel()
		<-done
	})
}

func TestAConditionThatWaitsIsWrittenWhenItsTimeHasCome(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	shown := func() plan.Condition {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
		return plan.NodeOf(n).Condition
	}
	w := newWriter(client, "w1", func() (plan.Node, bool) { return plan.Node{Condition: shown()}, true })
	w.rewordEvery = 50 * time.Millisecond
	go w.run(t.Context())
	first := tally{SessionsWanted: 1}.statement().condition()
	for _, cause := range []string{": a Connecting", ": a NoAnswer", ": a Refused"} {
		c := first
		c.Message += cause
		w.set(c)
		wait.True(t, 10*time.Second, time.Millisecond, fmt.Sprintf("the Node says %v", c), func() (bool, string) {
			now := shown()
			return now == c, fmt.Sprint(now)
		})
	}
}
