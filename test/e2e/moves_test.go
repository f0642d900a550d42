package e2e

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// longAnswers is a query whose answer is sent bit by bit for so long: a connection that is
// under way is sure to meet what happens meanwhile.
const longAnswers = "?" + kubelet.LastsParameter + "=200ms"

// routerMoves notes when a router changes its route to one of the VIPs.
func routerMoves(t *testing.T, l *lab.Lab, vips []netip.Addr) (moves func() map[netip.Addr][]lab.Change) {
	t.Helper()
	asked, err := l.RouterMoves(t.Context(), vips)
	must(t, err)
	return func() map[netip.Addr][]lab.Change {
		moved := asked()
		for _, changes := range moved {
			for _, c := range changes {
				t.Log(c.At.Format(time.StampMilli), c.Host, c.Text)
			}
		}
		return moved
	}
}
