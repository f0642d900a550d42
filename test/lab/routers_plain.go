package lab

import (
	"context"
	"fmt"
	"net/netip"

	"plinth.dev/plinth/test/lab/netns"
)

// plain is a router that only forwards. It runs no program and has nothing to be configured.
type plain struct{}

// start tells its kernel where the client is.
func (plain) start(_ context.Context, l *Lab, r Router) error {
	var lines []string
	for _, k := range l.Topology.neighbours(r.Name) {
		if k.b == clientHost {
			lines = append(lines,
				fmt.Sprintf("route replace %s via %s", ClientAddress.V4, k.addrB.V4),
				fmt.Sprintf("route replace %s via %s", ClientAddress.V6, k.addrB.V6))
		}
	}
	return netns.IP(l.Namespace(r.Name), lines...)
}

func (plain) configure(_ context.Context, _ *Lab, r Router, _ string) error {
	return fmt.Errorf("router %s speaks no BGP", r.Name)
}

func (plain) routes(context.Context, *Lab, Router, netip.Prefix) ([]BGPRoute, error) { return nil, nil }

func (plain) show(_ context.Context, _ *Lab, r Router, _ netip.Prefix) (string, error) {
	return "", fmt.Errorf("router %s speaks no BGP", r.Name)
}
