package kernel

import (
	"errors"

	"github.com/vishvananda/netlink"

	"plinth.dev/plinth/routing"
)

// removeDevice deletes the tunnel, which bears our name.
func removeDevice() error {
	link, err := netlink.LinkByName(routing.TunnelDevice)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
