// Package takeover holds the guides that bring a cluster over from another balancer against that balancer: its own
// programs serve, Plinth follows, and clients at home notice nothing.
package takeover

import (
	"testing"

	"plinth.dev/plinth/test/e2e/story"
)

func TestMain(m *testing.M) { story.Suite{Name: "takeover"}.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
