package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// The bridge of a machine's pods is their gateway. One without a hardware address of its
// own has that of its lowest port, and pods that have learned it send to nobody once the
// pod at that port has ended.
func TestPodsKeepTheirGatewayWhenOthersOnTheirMachineEnd(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "others", 12)
	with := bridges(t, l)
	story.Web(t, l, "mesh", 4)
	m := story.Mesh(t, l, story.Anywhere)
	must(t, l.ScaleWeb(t.Context(), "others", 0))
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, "others")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	}))
	story.PauseFor(t, 2*time.Second) // the mesh goes on without them
	if d := cmp.Diff(with, bridges(t, l)); d != "" {
		t.Errorf("the bridges' hardware addresses with other pods and without (-with +without):\n%s", d)
	}
	must(t, m.Stop())
	for kind, p := range m.Probers {
		if r := p.Report(); r.Sent == 0 || r.Lost > 0 {
			t.Errorf("%s between pods that stayed: %s", kind, r)
		}
	}
}

// bridges are the hardware addresses of the bridges that machines have for their pods.
func bridges(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for _, m := range l.Topology.Machines() {
		out, err := netns.Output(t.Context(), l.Namespace(m.Name), "ip", "-j", "link", "show", "dev", "pods")
		must(t, err)
		var links []struct{ Address string }
		must(t, json.Unmarshal([]byte(out), &links))
		addresses[m.Name] = links[0].Address
	}
	return addresses
}
