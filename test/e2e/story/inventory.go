package story

import (
	"context"
	"errors"
	"strings"
	"testing"

	"plinth.dev/plinth/test/lab"
)

// InForce applies an inventory and gives the routers their side of it; the lab's
// usual one is back in force when the story ends.
func InForce(t *testing.T, l *lab.Lab, documents ...string) {
	t.Helper()
	usual := lab.Inventory(l.Topology)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(l.ApplyInventory(ctx, usual), l.ConfigureRouters(ctx, usual)); err != nil {
			t.Error(err)
		}
	})
	must(t, l.ConfigureRouters(t.Context(), documents...))
	must(t, l.ApplyInventory(t.Context(), documents...))
}

// InMode is the lab's usual inventory with another mode of the pod network.
func InMode(l *lab.Lab, mode string) string {
	return strings.Replace(lab.Inventory(l.Topology), "mode: fabric", "mode: "+mode, 1)
}

// WithPool is the lab's usual inventory with more said of its pool.
func WithPool(l *lab.Lab, setting string) string {
	return strings.Replace(lab.Inventory(l.Topology), "    - name: public\n", "    - name: public\n      "+setting+"\n", 1)
}
