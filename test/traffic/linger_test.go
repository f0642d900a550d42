package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

func TestPodsThatServeWhileTheyTerminateKeepTheirVIPs(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "linger")
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	pods, err := l.Pods(t.Context(), "linger")
	must(t, err)
	for _, p := range pods {
		must(t, l.AnnotatePod(t.Context(), p.Name, kubelet.LingerAnnotation, "14s"))
	}
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		probes[vip] = story.Probing(t, l, vip, 50)
	}
	moves, err := l.RouterMoves(t.Context(), vips)
	must(t, err)
	must(t, l.ScaleWeb(t.Context(), "linger", 0)) // a machine may hear of its pods a moment before others, and leave for that long
	must(t, lab.Within(t.Context(), 5*time.Second, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, "linger")
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				err = errors.Join(err, fmt.Errorf("%s does not terminate", p.Name))
			}
		}
		return err
	}))
	story.PauseFor(t, 3*time.Second) // all that is left serves while it terminates
	story.ToldBy(t, l, vips, "w1", "w2", "w3", "w4")
	moved := moves()
	for vip, p := range probes {
		if r := p.Stop(); r.Sent < 100 || len(r.NotMoved(moved[vip])) > 0 {
			t.Errorf("%s, served by pods that terminate: %s; lost and not moved: %v; moves: %v", vip, r, r.NotMoved(moved[vip]), moved[vip])
		}
	}
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip)) // they have ended
	}
}
