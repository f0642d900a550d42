package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
)

// TestTheConditionSaysThatAnAgentIsOutdated and stays what it was: by its status, and by the
// reasons of one that is false, pods are kept away from a Node.
func TestTheConditionSaysThatAnAgentIsOutdated(t *testing.T) {
	for _, was := range []tally{{}, {Routes: 1, RoutesWanted: 2}, {SessionsWanted: 2, Sessions: 1}} {
		c := was.statement().condition()
		if now := was.statement().outdated(lb.Unread{}).condition(); now != c {
			t.Errorf("where all is read it is %+v", now)
		}
		now, reason := was.statement().outdated(lb.Unread{Inventory: agenttest.Newer().Error()}).condition(), c.Reason
		if c.Ready == corev1.ConditionTrue {
			reason = Outdated
		}
		if now.Ready != c.Ready || now.Reason != reason || !strings.Contains(now.Message, c.Message) || !strings.Contains(now.Message, "plinth-accepted") {
			t.Errorf("%+v becomes %+v", c, now)
		}
	}
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	a.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	a.tellUnread()
	a.publish()
	if got := a.status.Load().Unread; len(got) != 1 {
		t.Errorf("the status says %q", got)
	}
}
