// Package traffic counts what clients lose while something changes, and how long that takes: stories
// that a machine without a free processor can spoil. Those of VIPs on the link are in package onlink.
package traffic

import (
	"flag"
	"testing"

	"plinth.dev/plinth/test/e2e/story"
)

var others = flag.Int("others", 0, "Services of other programs that kube-proxy has rules for beside")

func TestMain(m *testing.M) { story.Suite{Name: "traffic", HoldTime: holdTime}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
