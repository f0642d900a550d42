package report

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/wait"
)

func TestTheConditionsReasonTellsRoutersFromRoutes(t *testing.T) {
	tests := []struct {
		name string
		t    Tally
		want string
	}{
		{"all is there", Tally{Routes: 12, RoutesWanted: 12, Sessions: 2, SessionsWanted: 2}, AsPlanned},
		{"one of two routers is down", Tally{Routes: 12, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2, PassedBy: 1}, Degraded},
		{"one of two has not answered yet", Tally{Routes: 12, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2}, SessionsDown},
		{"both are down", Tally{Routes: 12, RoutesWanted: 12, SessionsWanted: 2}, SessionsDown},
		{"both have been down for long, and carry pods", Tally{Routes: 12, RoutesWanted: 12, SessionsWanted: 2, CutOff: true}, CutOff},
		{"both have been down for long, and a route is missing", Tally{Routes: 11, RoutesWanted: 12, SessionsWanted: 2, CutOff: true}, Incomplete},
		{"a route is missing", Tally{Routes: 11, RoutesWanted: 12, Sessions: 2, SessionsWanted: 2}, Incomplete},
		{"a route and a router are missing", Tally{Routes: 11, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2, PassedBy: 1}, Incomplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.t.Statement().Condition()
			if c.Reason != tt.want || (c.Ready == corev1.ConditionTrue) != (tt.want == AsPlanned) {
				t.Errorf("got %+v, want %s", c, tt.want)
			}
		})
	}
}

func TestConditionIsWrittenWhenItChangesAndNotOtherwise(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	now := func() (plan.Node, bool) {
		n, err := client.CoreV1().Nodes().Get(context.Background(), "w1", metav1.GetOptions{})
		return plan.NodeOf(n), err == nil
	}
	w := NewWriter(slog.Default(), client, "w1", now)
	for _, c := range []Tally{{Routes: 11, RoutesWanted: 12}, {Routes: 11, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12, SessionsWanted: 2, Sessions: 1}} {
		w.write(t.Context(), c.Statement().Condition())
	}
	writes := 0
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			writes++
			if a.GetSubresource() != "status" {
				t.Errorf("wrote %s", a.GetSubresource())
			}
		}
	}
	n, _ := now()
	if want := (plan.Condition{Ready: corev1.ConditionFalse, Reason: SessionsDown, Message: "routes 12/12, sessions 1/2"}); writes != 3 || n.Condition != want {
		t.Errorf("%d writes, condition %v", writes, n.Condition)
	}
}

func TestAConditionThatIsOnlyRewordedIsWrittenOnceInHalfAMinute(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	began := time.Now()
	at := began
	w := NewWriter(slog.Default(), client, "w1", func() (plan.Node, bool) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		return plan.NodeOf(n), err == nil
	})
	w.clock = func() time.Time { return at }
	says := func(sessions int, cause string) plan.Condition {
		c := Tally{Sessions: sessions, SessionsWanted: 2}.Statement().Condition()
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
		w := NewWriter(slog.Default(), client, "w1", func() (plan.Node, bool) {
			n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
			return plan.NodeOf(n), err == nil
		})
		stuck := false
		w.Stuck = func() bool { return stuck }
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
		go func() { defer close(done); w.Run(ctx) }()
		w.Set(Tally{}.Statement().Condition())
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
	w := NewWriter(slog.Default(), client, "w1", func() (plan.Node, bool) { return plan.Node{Condition: shown()}, true })
	w.rewordEvery = 50 * time.Millisecond
	go w.Run(t.Context())
	first := Tally{SessionsWanted: 1}.Statement().Condition()
	for _, cause := range []string{": a Connecting", ": a NoAnswer", ": a Refused"} {
		c := first
		c.Message += cause
		w.Set(c)
		wait.True(t, 10*time.Second, time.Millisecond, fmt.Sprintf("the Node says %v", c), func() (bool, string) {
			now := shown()
			return now == c, fmt.Sprint(now)
		})
	}
}

func TestASessionThatComesBackIsToldAtOnceWhileAnotherIsDown(t *testing.T) {
	said := func(message string) plan.Condition {
		return plan.Condition{Message: "routes 1/1, sessions 1/3: " + message}
	}
	for _, tt := range []struct {
		was, now string
		alike    bool
	}{
		{"a/10.0.0.1 NoAnswer, b/10.0.0.2 NoAnswer", "b/10.0.0.2 NoAnswer", false},
		{"a/10.0.0.1 NoAnswer, b/10.0.0.2 NoAnswer", "a/10.0.0.1 Refused, b/10.0.0.2 Connecting", true},
		{"a/10.0.0.1 NoAnswer", "a/10.0.0.1 lacks pod CIDRs", false},
		{"a/10.0.0.1 NoAnswer, and 2 more", "b/10.0.0.2 NoAnswer, and 2 more", true},
	} {
		if got := sayAlike(said(tt.was), said(tt.now)); got != tt.alike {
			t.Errorf("%q and %q say alike: %v", tt.was, tt.now, got)
		}
	}
}

// TestTheConditionSaysThatAnAgentIsOutdated and stays what it was: by its status, and by the
// reasons of one that is false, pods are kept away from a Node.
func TestTheConditionSaysThatAnAgentIsOutdated(t *testing.T) {
	for _, was := range []Tally{{}, {Routes: 1, RoutesWanted: 2}, {SessionsWanted: 2, Sessions: 1}} {
		c := was.Statement().Condition()
		if now := was.Statement().Outdated(lb.Unread{}).Condition(); now != c {
			t.Errorf("where all is read it is %+v", now)
		}
		now, reason := was.Statement().Outdated(lb.Unread{Inventory: agenttest.Newer().Error()}).Condition(), c.Reason
		if c.Ready == corev1.ConditionTrue {
			reason = Outdated
		}
		if now.Ready != c.Ready || now.Reason != reason || !strings.Contains(now.Message, c.Message) || !strings.Contains(now.Message, "plinth-accepted") {
			t.Errorf("%+v becomes %+v", c, now)
		}
	}
}
