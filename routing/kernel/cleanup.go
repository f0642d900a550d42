package kernel

import (
	"context"
	"errors"
)

// Clear removes all that bears our mark: routes, rules and the tunnel. It carries on
// after a failure; its errors are those of [Table.Set] and of removing the tunnel's device.
func (t *Table) Clear(ctx context.Context) error {
	t.Invalidate()
	_, err := t.Set(ctx, nil)
	return errors.Join(err, removeDevice())
}
