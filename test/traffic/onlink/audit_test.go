package onlink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// found is how soon the API server knows what an audit finds: it looks once in 30 seconds, and a condition changes once
// in 30 seconds at most.
const found = 2 * time.Minute

// TestWhatNoPlanKnowsIsFoundOnTheWireAndToldFarFromIt: a switch that swallows what the owner says, a machine whose kernel has
// the VIP, and a cut between two machines that both hear the third. Status and why know of each by the API server alone.
func TestWhatNoPlanKnowsIsFoundOnTheWireAndToldFarFromIt(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "audited")
	vip := vips[0]
	owner := story.Owned(t, l, vips)[vip]
	claim, err := l.Kube.NetworkingV1().IPAddresses().Get(t.Context(), vip.String(), metav1.GetOptions{})
	must(t, err)
	others := slices.DeleteFunc(strings.Split(claim.Annotations["plinth.dev/homes"], ","), func(m string) bool { return m == owner })
	if len(others) != 2 {
		t.Fatalf("the homes of %s are %q, and %s has it", vip, claim.Annotations["plinth.dev/homes"], owner)
	}
	last := others[1] // the other one looks
	onLoopback := func(how string) error {
		return netns.IP(l.Namespace(last), fmt.Sprintf("addr %s %s dev lo", how, lab.VIPPrefix(vip)))
	}
	for _, c := range []struct {
		reason     lb.Reason
		step       string // of why, that does not hold
		cut, mend  func() error
		isAnswered bool
	}{
		{lb.NotAnsweredOnWire, "plan", func() error { return l.SetInspected(t.Context(), owner, vips...) }, func() error { return l.SetInspected(context.Background(), owner) }, false},
		{lb.AnsweredByOther, "answered", func() error { return onLoopback("add") }, func() error { return onLoopback("del") }, true},
		{lb.AnsweredByOther, "answered", func() error { return l.SetSevered(t.Context(), lab.Apart([]string{owner}, []string{others[0]})...) },
			func() error {
				return errors.Join(l.SetSevered(context.Background()), story.LinksUp(context.Background(), l))
			}, true},
	} {
		t.Cleanup(func() { _ = c.mend() })
		must(t, c.cut())
		owners, err := l.Owners(t.Context(), lab.Laptop, vip)
		must(t, err)
		if (len(owners) > 0) != c.isAnswered {
			t.Fatalf("%s: %v answer for %s", c.reason, owners, vip)
		}
		must(t, lab.Within(t.Context(), found, func(ctx context.Context) error {
			return errors.Join(story.InStatus(ctx, l, "default/audited", string(c.reason)), story.BrokenAt(ctx, l, "svc/default/audited", c.step, string(c.reason)))
		}))
		must(t, c.mend())
		must(t, lab.Within(t.Context(), found, func(ctx context.Context) error { return story.AllWell(ctx, l) }))
	}
}

// TestAnAgentThatMayOpenNoPacketSocketLeavesItsVIPsToOthers begins without what deploy/components/on-link adds.
func TestAnAgentThatMayOpenNoPacketSocketLeavesItsVIPsToOthers(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "forgotten")
	machine := story.Owned(t, l, vips)[vips[0]]
	again := func(start func() error) {
		must(t, l.StopAgent(context.Background(), machine, syscall.SIGTERM))
		must(t, start())
	}
	t.Cleanup(func() {
		again(func() error { return l.StartAgentAgain(machine) })
		must(t, story.LinksUp(context.Background(), l))
	})
	again(func() error { return l.StartAgentOfBase(machine) })
	others := slices.DeleteFunc(slices.Clone(l.Topology.Machines()), func(m lab.Machine) bool { return m.Name == machine })
	for _, vip := range vips {
		_, err := l.WaitOwner(t.Context(), lab.Laptop, vip, others[0].Name, others[1].Name)
		must(t, err)
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	must(t, lab.Within(t.Context(), found, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, machine, string(lb.CapabilityMissing)), story.BrokenAt(ctx, l, "node/"+machine, "fabric", string(lb.CapabilityMissing)))
	}))
}
