//go:build privileged

package agent

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

// numberClaim has the claim of a VIP bear a number of the format, and holders in its form.
func numberClaim(t *testing.T, client *fake.Clientset, vip string, annotations map[string]string) {
	t.Helper()
	claims := client.NetworkingV1().IPAddresses()
	c, err := claims.Get(t.Context(), vip, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(c.Annotations, annotations)
	if _, err := claims.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reasonIs waits until the Node's condition is True with a reason.
func reasonIs(t *testing.T, client *fake.Clientset, reason string) {
	t.Helper()
	eventually(t, "the condition is True, "+reason, func() (bool, string) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		c := plan.NodeOf(n).Condition
		return c.Ready == corev1.ConditionTrue && c.Reason == reason, c.Reason + ": " + c.Message
	})
}

// TestAnAgentAnnouncesOnWhatANewerVersionStored as it was before, follows all else, and does
// so when it is started anew.
func TestAnAgentAnnouncesOnWhatANewerVersionStored(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir, pods := t.TempDir(), []string{"10.244.1.0/24", "fd00:244:0:1::/64"}
	all := append(slices.Clone(pods), "203.0.113.5/32")
	first := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, all...)
	reasonIs(t, client, report.AsPlanned)
	first.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	numberClaim(t, client, "203.0.113.5", map[string]string{inventory.AnnotationFormat: "2"})
	reasonIs(t, client, report.Outdated)
	learned(t, ask, all...)
	if s := first.show(t); len(s.Unread) != 2 || s.WaitingFor != "" || !strings.Contains(first.get("/metrics"), "plinth_agent_newer_format 1") {
		t.Errorf("not read: %q, waits for %q", s.Unread, s.WaitingFor)
	}

	t.Log("it is started anew")
	first.stop()
	second := start(t, client, nil, dir, proxyURL, nil)
	eventually(t, "it knows its rack", func() (bool, string) {
		s := second.show(t)
		return s.WaitingFor == "the accepted inventory", s.WaitingFor
	})
	second.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	eventually(t, "it has all that it needs", func() (bool, string) {
		s := second.show(t)
		return s.WaitingFor == "" && !s.FromDisk && len(s.Unread) == 2, s.WaitingFor + strings.Join(s.Unread, "; ")
	})
	learned(t, ask, all...)
	if err := client.DiscoveryV1().EndpointSlices("prod").Delete(t.Context(), "web-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	learned(t, ask, pods...) // it follows endpoints

	t.Log("what is stored is set back")
	numberClaim(t, client, "203.0.113.5", map[string]string{inventory.AnnotationFormat: "1"})
	second.sources.Accept(t.Context(), source.Followed{Inventory: siteWith(t, "active")}, nil)
	reasonIs(t, client, report.AsPlanned)
	if s := second.show(t); len(s.Unread) != 0 {
		t.Errorf("not read: %q", s.Unread)
	}

	t.Log("one that knows nothing says what it waits for")
	second.stop()
	third := start(t, client, nil, t.TempDir(), proxyURL, nil)
	eventually(t, "it knows its rack", func() (bool, string) {
		s := third.show(t)
		return s.WaitingFor == "the accepted inventory", s.WaitingFor
	})
	third.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	eventually(t, "it says why it cannot go on", func() (bool, string) {
		s := third.show(t)
		return strings.Contains(s.WaitingFor, "configmap plinth-accepted is of format "+strconv.Quote(agenttest.NewerFormat)), s.WaitingFor
	})
}
