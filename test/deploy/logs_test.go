package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/components"
)

// TestTheLastWordOfAProgramIsALineOfItsLog: one that cannot go on says why as it says all else.
func TestTheLastWordOfAProgramIsALineOfItsLog(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for name, args := range map[string][]string{
		"plinth-agent":                    {"--log-format=json", "--node-name=w1", "--state-dir=" + t.TempDir(), "--kubeconfig=" + nowhere},
		"plinth-cloud-controller-manager": {"--logging-format=json", "--kubeconfig=" + nowhere},
	} {
		t.Run(name, func(t *testing.T) {
			patient, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			program, err := components.Plinths(t.Context(), name, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(patient, program, args...).CombinedOutput()
			var ended *exec.ExitError
			if !errors.As(err, &ended) {
				t.Fatalf("it ends with %v:\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			for _, line := range lines {
				var fields map[string]any
				if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] == nil {
					t.Errorf("this line is no object with a message: %v: %s", err, line)
				}
			}
			if last := lines[len(lines)-1]; !strings.Contains(last, nowhere) {
				t.Errorf("its last line does not say what is missing: %s", last)
			}
		})
	}
}
