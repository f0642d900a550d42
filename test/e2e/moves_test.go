package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// longAnswers is a query whose answer is sent bit by bit for so long: a connection that is
// under way is sure to meet what happens meanwhile.
const longAnswers = "?" + kubelet.LastsParameter + "=200ms"

// cutTime is how soon after a router has moved a connection that it moved is reset: by its
// next packet, on a busy machine.
const cutTime = 300 * time.Millisecond

// routerMoves notes when a router changes its route to one of the VIPs.
func routerMoves(t *testing.T, l *lab.Lab, vips []netip.Addr) (moves func() map[netip.Addr][]time.Time) {
	t.Helper()
	followed := map[netip.Addr][]func() []lab.Change{}
	for _, vip := range vips {
		for _, r := range l.Topology.Routers {
			changes, err := l.Changes(t.Context(), r.Name, vip)
			must(t, err)
			followed[vip] = append(followed[vip], changes)
		}
	}
	return func() map[netip.Addr][]time.Time {
		moved := map[netip.Addr][]time.Time{}
		for vip, all := range followed {
			for _, changes := range all {
				for _, c := range changes() {
					t.Log(c.At.Format(time.StampMilli), c.Text)
					moved[vip] = append(moved[vip], c.At)
				}
			}
		}
		return moved
	}
}

// notCut is when those lost requests were sent whose connection was not under way when a
// router moved. One that was meets a machine that does not know it, whose kernel resets it.
func notCut(t *testing.T, r lab.Report, moves []time.Time) []time.Time {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(r.Losses), func(sent time.Time) bool {
		return slices.ContainsFunc(r.Cuts, func(c lab.Cut) bool {
			return c.Sent.Equal(sent) && slices.ContainsFunc(moves, func(at time.Time) bool {
				return c.Opened.Before(at) && c.Reset.After(at.Add(-cutTime)) && c.Reset.Before(at.Add(cutTime))
			})
		})
	})
}
