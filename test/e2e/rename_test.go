package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAMachineThatIsRenamedLosesNoConnection, there and back: its Node stays, and the sessions of its agent. Half of the
// connections are served by pods of the other rack.
func TestAMachineThatIsRenamedLosesNoConnection(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "renamed", 4)
	vips := story.Expose(t, l, lab.LoadBalancer("renamed", "renamed"))
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	usual := lab.Inventory(l.Topology)
	t.Cleanup(func() { must(t, l.ApplyInventory(context.Background(), usual)) })
	renamed := strings.Replace(usual, "name: w1,", "name: w9,", 1)
	if renamed == usual {
		t.Fatalf("there is no machine w1:\n%s", usual)
	}
	was, err := l.Kube.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	must(t, err)
	before := story.RoutersKnow(t, l)

	p, err := l.ProbeTCP(t.Context(), 40, vips...)
	must(t, err)
	for _, edit := range []struct{ name, text string }{{"w9", renamed}, {"w1", usual}} {
		must(t, l.ApplyInventory(t.Context(), edit.text))
		must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
			var agent struct{ Machine string }
			text, err := l.AgentStatus(ctx, "w1")
			if err == nil {
				err = json.Unmarshal([]byte(text), &agent)
			}
			if err == nil && agent.Machine != edit.name {
				err = fmt.Errorf("the agent of w1 is machine %q", agent.Machine)
			}
			return err
		}))
		passage(t, l, "renamed") // all have heard of it
	}
	story.NoneHarmed(t, p, len(vips))
	now, err := l.Kube.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	must(t, err)
	if now.Spec.ProviderID != was.Spec.ProviderID || now.UID != was.UID || now.Spec.PodCIDR != was.Spec.PodCIDR {
		t.Errorf("the Node was %s with %s, and is %s with %s", was.Spec.ProviderID, was.Spec.PodCIDR, now.Spec.ProviderID, now.Spec.PodCIDR)
	}
	if after := story.RoutersKnow(t, l); after != before {
		t.Errorf("the routers knew\n%s\nand now know\n%s", before, after)
	}
}
