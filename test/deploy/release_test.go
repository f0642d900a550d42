package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// TestTheReleasedChartIsReadByHelm packages the chart as a release does, without Helm, and has Helm read it.
func TestTheReleasedChartIsReadByHelm(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	run(t, exec.Command("go", "run", "-C", "../../release", "./dist", "-only", "chart", "-version", "v1.2.3-rc.1", "-epoch", "1", "-root", "..", "-out", out,
		"-registry", "registry.example.com/plinth", "-download", "https://example.com/releases", "-source", "https://example.com/source"), "")
	chart, err := loader.LoadFile(filepath.Join(out, "plinth-1.2.3-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}
	manifest, err := renderChart(chart, namespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: registry.example.com/plinth/plinth-agent:v1.2.3-rc.1\n", "image: registry.example.com/plinth/plinth-cloud-controller-manager:v1.2.3-rc.1\n"} {
		if !strings.Contains(manifest, want) {
			t.Errorf("it makes nothing with %s", want)
		}
	}
}
