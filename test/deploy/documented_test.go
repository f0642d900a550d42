package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// version is what the programs under test are built as.
const version = "v9.8.7-test"

// built is one of our programs, built as make builds it, with a version of the test's own.
func built(t *testing.T, folder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), folder)
	build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version="+version, "-o", file, "./cmd/"+folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	run(t, build, "")
	return file
}

// What the help of plinth validate and the guide of Git print, on what we ship.
func TestTheDocumentedPipesReadTheShippedOverlay(t *testing.T) {
	plinth := built(t, "plinth")
	const valid = "valid: inventory home with "
	rendered := render(t, "overlays/homelab")
	for name, c := range map[string]struct {
		args []string
		in   string
		want string
	}{
		"kubectl kustomize . | plinth validate -":             {[]string{"validate", "--strict", "-"}, rendered, valid},
		"plinth validate on the folder":                       {[]string{"validate", "--strict", "../../deploy/overlays/homelab"}, "", valid},
		"plinth diff of the two":                              {[]string{"diff", "../../deploy/overlays/homelab", "-"}, rendered, "nothing changes"},
		"kubectl kustomize . | plinth router-config ROUTER -": {[]string{"router-config", "gateway", "--os", "frr", "-"}, rendered, "router bgp "},
	} {
		t.Run(name, func(t *testing.T) {
			if out := run(t, exec.Command(plinth, c.args...), c.in); !strings.Contains(out, c.want) {
				t.Errorf("it prints\n%s", out)
			}
		})
	}
}

// The guide's own layout: its kustomization lies beside the files that it is made of.
func TestTheGuidesLayoutIsReadAsItStandsAndAsItIsRendered(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/inventory-in-git.md")
	if err != nil {
		t.Fatal(err)
	}
	kustomization := regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize.*?)```").FindSubmatch(guide)
	if kustomization == nil {
		t.Fatal("the guide has no kustomization any more: this test says nothing")
	}
	folder := t.TempDir()
	files, err := filepath.Glob("../../examples/two-rack/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, filepath.Base(file)), text)
	}
	put(t, filepath.Join(folder, "kustomization.yaml"), kustomization[1])
	plinth := built(t, "plinth")
	const valid = "valid: inventory dc1 with 2 racks"
	if out := run(t, exec.Command(plinth, "validate", folder), ""); !strings.Contains(out, valid) {
		t.Errorf("plinth validate inventory/ prints\n%s", out)
	}
	rendered := run(t, exec.Command(kubectlFile(t), "kustomize", folder), "")
	if out := run(t, exec.Command(plinth, "diff", folder, "-"), rendered); !strings.Contains(out, "nothing changes") {
		t.Errorf("rendered it is another inventory:\n%s", out)
	}
}

func put(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
