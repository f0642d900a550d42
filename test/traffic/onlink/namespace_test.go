package onlink

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAMoveToAnotherNamespaceAndBackMovesNothingOnTheLink moves Plinth as the guide does with kustomize. All
// machines change over at once, so that none of them is there to follow another.
func TestAMoveToAnotherNamespaceAndBackMovesNothingOnTheLink(t *testing.T) {
	l := story.Home(t)
	story.ForgetMove(t, l)
	vips := story.Outside(t, l, "moved-a", "moved-b", "moved-c")
	was, before, probes := story.Owned(t, l, vips), story.Placed(t, l), map[netip.Addr]*lab.Prober{}
	// One of each family: a thousand packets a second to each of six are more than this machine passes on
	// while three agents begin.
	for _, vip := range []netip.Addr{vips[0], vips[slices.IndexFunc(vips, netip.Addr.Is6)]} {
		probes[vip] = story.Packets(t, l, vip)
	}
	for _, step := range []struct{ from, to string }{{lab.PlinthNamespace, story.Elsewhere}, {story.Elsewhere, lab.PlinthNamespace}} {
		story.Move(t, l, step.from, step.to)
		must(t, story.LinksUp(t.Context(), l))
		if d := cmp.Diff(before, story.Placed(t, l)); d != "" {
			t.Errorf("from %s to %s: %s", step.from, step.to, d)
		}
		story.PauseFor(t, 6*time.Second) // the first home looks every five seconds whether it is answered for
		story.Stays(t, l, was)
	}
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if r.Sent == 0 || r.Lost > 0 {
			t.Errorf("%s: %d packets lost", vip, r.Lost)
		}
	}
}
