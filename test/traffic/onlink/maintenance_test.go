package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestMaintenanceMovesVIPsOnTheLinkWithoutALoss(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "moved-a", "moved-b", "moved-c")
	was := story.Owned(t, l, vips)
	leaver := was[vips[0]]
	v6 := vips[slices.IndexFunc(vips, func(v netip.Addr) bool { return v.Is6() && was[v] == was[vips[0]] })]
	probes := []*lab.Prober{story.Packets(t, l, vips[0]), story.Packets(t, l, v6)}
	usual := lab.Inventory(l.Topology)
	t.Cleanup(func() {
		must(t, l.ApplyInventory(context.Background(), usual))
		must(t, story.LinksUp(context.Background(), l))
	})
	must(t, l.ApplyInventory(t.Context(), story.Edited(t, usual, "{name: "+leaver+",", "{name: "+leaver+", state: maintenance,")))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		now, err := l.OwnersOf(ctx, lab.Laptop, vips...)
		for vip, owners := range now {
			if len(owners) != 1 || owners[0] == leaver {
				return fmt.Errorf("%v answer for %s", owners, vip)
			}
		}
		return err
	}))
	for _, p := range probes {
		r := p.Stop()
		t.Logf("%s went into maintenance: %s", leaver, r)
		if r.Sent == 0 || r.Lost > 0 {
			t.Errorf("%d of %d packets were lost", r.Lost, r.Sent)
		}
	}
	after := story.Owned(t, l, vips)
	for vip, owner := range was {
		if owner != leaver && after[vip] != owner {
			t.Errorf("%s moved from %s to %s", vip, owner, after[vip])
		}
	}
}
