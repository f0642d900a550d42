package agent

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
)

func TestTheStatusSaysThatAnAgentIsOutdated(t *testing.T) {
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	a.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	a.tellUnread()
	if got := statusOf(t, a).Unread; len(got) != 1 {
		t.Errorf("the status says %q", got)
	}
}
