// Package onlink counts what clients at home lose while something changes, and how long that takes.
package onlink

import (
	"testing"

	"plinth.dev/plinth/test/e2e/story"
)

func TestMain(m *testing.M) { story.Suite{Name: "traffic-link"}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
