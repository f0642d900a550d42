package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// lostTold is how soon everybody knows that the rules of a machine are gone: four looks, a pass of its agent, and a write.
const lostTold = 20 * time.Second

// TestAMachineWhoseRulesAreGoneLeavesItsVIPsToOthers says so, and has them again after the command of the docs. A
// client that asks meanwhile is answered by the others.
func TestAMachineWhoseRulesAreGoneLeavesItsVIPsToOthers(t *testing.T) {
	const bare = "w1"
	l := story.Shared(t)
	story.Web(t, l, "ruled", 4)
	vips := slices.Concat(story.Expose(t, l, lab.LoadBalancer("ruled", "ruled")), story.OnlyLocally(t, l, "ruled-here"))
	story.Announced(t, l, vips)
	t.Cleanup(func() { must(t, l.WriteRulesAnew(context.Background())) })

	must(t, l.FlushRules(t.Context(), bare))
	story.Announced(t, l, vips, "w2", "w3", "w4")
	p, err := l.ProbeTCP(t.Context(), 40, vips...)
	must(t, err)
	must(t, lab.Within(t.Context(), lostTold, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, bare, "ProxyRulesLost"), story.BrokenAt(ctx, l, "node/"+bare, "fabric", "ProxyRulesLost"),
			story.BrokenAt(ctx, l, "svc/default/ruled", "machines", bare+": kube-proxy's rules are gone"))
	}))
	must(t, l.WriteRulesAnew(t.Context()))
	story.Announced(t, l, vips)
	must(t, lab.Within(t.Context(), lostTold, func(ctx context.Context) error { return story.Holds(ctx, l, "svc/default/ruled") }))
	story.NoneHarmed(t, p, len(vips))
}
