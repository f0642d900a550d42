package kernel

import (
	"context"
	"errors"
)

// Clear removes all that bears our mark: routes, rules and the tunnel.
func (t *Table) Clear(ctx context.Context) error {
	t.Doubt()
	_, err := t.Set(ctx, nil)
	return errors.Join(err, removeDevice())
}
