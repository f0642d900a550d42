//go:build !linux

package probe

import (
	"context"
	"errors"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
)

// Read is for Linux alone.
func Read(context.Context, *inventory.Inventory, string) (machine.Facts, error) {
	return machine.Facts{}, errors.New("machines of Plinth run Linux, and so does whoever looks at one: run this there, or read a bundle")
}
