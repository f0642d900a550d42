// Package onlink tells what Plinth does at home as stories on a whole lab: three machines, a phone and a laptop on one
// subnet, whose router speaks no BGP.
package onlink

import (
	"testing"

	"plinth.dev/plinth/test/e2e/story"
)

func TestMain(m *testing.M) { story.Suite{Name: "e2e-link", JSONLogs: true}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
