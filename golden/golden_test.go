package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that notes its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failures = append(r.failures, format) }

func TestAFileThatDiffersFailsUntilItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages", "a.md")
	for _, step := range []struct {
		update bool
		made   string
		fails  bool
	}{{false, "a\n", true}, {true, "a\n", false}, {false, "a\n", false}, {false, "b\n", true}, {true, "b\n", false}} {
		*update = step.update
		r := &recorder{TB: t}
		Hold(r, path, []byte(step.made))
		if fails := len(r.failures) > 0; fails != step.fails {
			t.Errorf("%+v: %s", step, strings.Join(r.failures, "\n"))
		}
	}
	*update = false
	if text, err := os.ReadFile(path); err != nil || string(text) != "b\n" {
		t.Errorf("%q, %v", text, err)
	}
}
