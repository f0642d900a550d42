package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestAPoolThatIsAddedToTheInventoryServesTheServiceThatWaitsForIt(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "late", 4)
	pool := netip.MustParsePrefix("198.51.100.0/28")
	service := lab.LoadBalancer("late", "late")
	service.Annotations = map[string]string{"plinth.dev/pool": "second"}
	service.Spec.IPFamilyPolicy = nil
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	t.Cleanup(func() { l.RemoveService(context.Background(), "late") }) // when the story broke off
	if vips, err := l.Expose(short, service); err == nil {
		t.Fatalf("the Service got %v from a pool that does not exist", vips)
	}

	story.InForce(t, l, lab.Inventory(l.Topology), lab.Pool(l.Topology, "second", pool.String()))
	var vips []netip.Addr
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) (err error) {
		if vips, err = l.VIPs(ctx, "late"); err == nil && (len(vips) != 1 || !pool.Contains(vips[0])) {
			err = errNotFrom(pool, vips)
		}
		return err
	}))
	story.Announced(t, l, vips)
	must(t, l.WaitServed(t.Context(), vips[0]))
	must(t, l.RemoveService(t.Context(), "late")) // before its pool goes
}

func errNotFrom(pool netip.Prefix, vips []netip.Addr) error {
	return fmt.Errorf("VIPs %v, want one of %s", vips, pool)
}
