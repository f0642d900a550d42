package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"plinth.dev/plinth/test/apiserver"
)

// released is a folder with parts of a release.
func released(t *testing.T, parts string) (folder string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	run(t, exec.Command("go", "run", "-C", "../../release", "./dist", "-only", parts, "-version", "v1.2.3-rc.1", "-epoch", "1", "-root", "..", "-out", out,
		"-registry", "registry.example.com/plinth", "-download", "https://example.com/releases", "-source", "https://example.com/source"), "")
	return out
}

// TestTheReleasedManifestsAreTakenByAnAPIServer applies each file of a release on trial, as strictly as kubectl can.
func TestTheReleasedManifestsAreTakenByAnAPIServer(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, "", "create", "namespace", ownNamespace) // on trial nothing is created, and what is in it needs it
	files, err := filepath.Glob(filepath.Join(released(t, "manifests"), "*.yaml"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%d files: %q, %v", len(files), files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			manifest := text(t, file)
			kubectl(t, s, manifest, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			for image := range strings.Lines(manifest) {
				if name := strings.TrimSpace(image); strings.HasPrefix(name, "image: ") && !strings.HasPrefix(name, "image: registry.example.com/plinth/") {
					t.Errorf("%s is of no release", name)
				}
			}
		})
	}
}

// TestTheReleasedChartIsReadByHelm packages the chart as a release does, without Helm, and has Helm read it.
func TestTheReleasedChartIsReadByHelm(t *testing.T) {
	chart, err := loader.LoadFile(filepath.Join(released(t, "chart"), "plinth-1.2.3-rc.1.tgz"))
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
