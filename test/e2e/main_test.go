// Package e2e tells what Plinth does as stories on a whole lab: a real control
// plane, real routers, a real kernel. One story a file, and each holds facts: how much is lost, and how
// long things take, is told in package traffic, but for what kernels know of one rollout. Those of VIPs on
// the link are in package onlink.
package e2e

import (
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
)

func TestMain(m *testing.M) { story.Suite{Name: "e2e", HoldTime: 9 * time.Second}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
