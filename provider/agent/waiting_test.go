package agent

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

// On a machine that has just booted kube-proxy may take longer than a resync to make the
// API server's address work: the agent has no inventory when its first one comes.
func TestAnAgentThatWaitsForItsInventoryOutlivesAResync(t *testing.T) {
	a := new(Agent)
	a.writeAlive()
	a.checkSettings()
	if a.planned.once || a.reporting.settings != nil {
		t.Errorf("it has planned (%v) and found settings %v without an inventory", a.planned.once, a.reporting.settings)
	}
}

// TestAnAgentWaitsForNoWordOfAnAPIServerThatIsAway: it passes once more only where the API server spoke lately.
func TestAnAgentWaitsForNoWordOfAnAPIServerThatIsAway(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for silence, passes := range map[time.Duration]bool{0: false, heardLately: true} {
		a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
		if a.grace.silence != heardLately {
			t.Errorf("an API server is away after %v", a.grace.silence)
		}
		a.grace.silence = silence
		a.schedule.timer = time.NewTimer(0)
		if a.shutsDown(ended, nil) {
			t.Error("it shuts down by nobody's word")
		}
		if a.waiting.what != "" != passes {
			t.Errorf("silence of %v: it waits for %q", silence, a.waiting.what)
		}
	}
}

func TestAConditionSaysWhatIsLongWaitedFor(t *testing.T) {
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	said := func() plan.Condition {
		if c, due := a.condition(); due {
			return c
		}
		return plan.Condition{}
	}
	a.wait("the accepted inventory")
	if said() != (plan.Condition{}) {
		t.Error("it says something at once")
	}
	a.waiting.since = a.waiting.since.Add(-waitsLong)
	a.wait("the accepted inventory")
	if c, want := said(), (plan.Condition{Ready: corev1.ConditionFalse, Reason: report.Incomplete, Message: "routes 0/0, sessions 0/0; waiting for the accepted inventory"}); c != want {
		t.Errorf("it says %v, want %v", c, want)
	}
	a.wait("the nodes") // the API server does tell things, one after the other
	if said() != (plan.Condition{}) {
		t.Error("it says at once that the next is missing")
	}
}
