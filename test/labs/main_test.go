// Package labs has the stories of labs of other shapes, of what a lab leaves behind, and of what
// fails on one.
package labs

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
)

var everyFailure = flag.Bool("every-failure", false, "hold what is simulated against each machine, router and rack, and ten pairs of them")

func TestMain(m *testing.M) {
	if os.Getenv(makerVariable) != "" {
		makeAndHang(context.Background())
	}
	story.Suite{Name: "labs", HoldTime: 9 * time.Second, Besides: []string{traces}}.Main(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
