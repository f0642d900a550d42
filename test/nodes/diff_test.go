package nodes

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/test/apiserver"
)

func TestDiffTellsWhatAFileWouldChangeInTheCluster(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "active"))
	c.AwaitStatus("generation", "1")
	folder := c.files(map[string]string{"same.yaml": zoned("a", "active"), "other.yaml": zoned("b", "maintenance")})

	if code, out := diff(t, program, c.Kubeconfig, filepath.Join(folder, "same.yaml")); code != 0 {
		t.Errorf("against what is in force: exit code %d\n%s", code, out)
	}
	code, out := diff(t, program, c.Kubeconfig, filepath.Join(folder, "other.yaml"))
	if code != 1 || !strings.Contains(out, "w2") || !strings.Contains(out, "maintenance") {
		t.Errorf("against another zone, and w2 in maintenance: exit code %d\n%s", code, out)
	}
}

// diff compares what is in force in a cluster with a file.
func diff(t *testing.T, program, kubeconfig, file string) (code int, out string) {
	t.Helper()
	var text bytes.Buffer
	cmd := exec.Command(program, "diff", "--kubeconfig", kubeconfig, "cluster", file)
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}
