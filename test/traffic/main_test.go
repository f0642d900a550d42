// Package traffic counts what clients lose while something changes, and how long that takes: stories
// that a machine without a free processor can spoil. Those of VIPs on the link are in package onlink.
package traffic

import (
	"flag"
	"net/netip"
	"testing"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

var others = flag.Int("others", 0, "Services of other programs that kube-proxy has rules for beside")

func TestMain(m *testing.M) { story.Suite{Name: "traffic", HoldTime: holdTime}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// localClients exposes four pods by a Service whose machines each serve their own pods alone, and has clients send a hundred
// requests a second to each of its VIPs.
func localClients(t *testing.T, l *lab.Lab, name string) ([]netip.Addr, map[netip.Addr]*lab.Prober) {
	t.Helper()
	story.Web(t, l, name, 4)
	vips := story.Expose(t, l, story.Local(lab.LoadBalancer(name, name)))
	story.Announced(t, l, vips)
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		probes[vip] = story.Probing(t, l, vip, 100)
	}
	return vips, probes
}
