//go:build slow

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestKrewInstallsThePlugin has krew itself, as release/krew pins it, read the manifest and install the archive of this
// platform. It tells a manifest that it would not take, and an archive that has another checksum.
func TestKrewInstallsThePlugin(t *testing.T) {
	krew := filepath.Join(t.TempDir(), "krew")
	build := exec.Command("go", "build", "-trimpath", "-o", krew, "sigs.k8s.io/krew/cmd/krew")
	build.Dir = "../krew"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := makeRelease(t)
	here := platform{runtime.GOOS, runtime.GOARCH}
	manifest, archive := filepath.Join(o.out, "plinth.yaml"), filepath.Join(o.out, o.archive("plinth", here))
	other := platform{"linux", map[string]string{"amd64": "arm64", "arm64": "amd64"}[here.arch]}
	for name, c := range map[string]struct {
		manifest, archive string
		says              string // empty: it installs
	}{
		"as released":            {manifest, archive, ""},
		"the archive of another": {manifest, filepath.Join(o.out, o.archive("plinth", other)), "checksum"},
		"without a checksum":     {edited(t, manifest, "sha256: ", "sum: "), archive, "sha256"},
		"of no version":          {edited(t, manifest, "version: v1.2.3", "version: newest"), archive, "newest"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			install := exec.Command(krew, "install", "--manifest="+c.manifest, "--archive="+c.archive)
			install.Env = append(os.Environ(), "KREW_ROOT="+root)
			out, err := install.CombinedOutput()
			if (err == nil) != (c.says == "") || !strings.Contains(string(out), c.says) {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.says != "" {
				return
			}
			installed, err := os.ReadFile(filepath.Join(root, "bin", "kubectl-plinth"))
			if err != nil || !strings.HasSuffix(string(installed), "plinth for "+here.String()) {
				t.Errorf("what krew installed is not the program: %v", err)
			}
		})
	}
}

// edited is a copy of a file in which one text is another.
func edited(t *testing.T, file, old, changed string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q (%v)", file, old, err)
	}
	edited := filepath.Join(t.TempDir(), "plinth.yaml")
	put(t, edited, []byte(strings.ReplaceAll(string(text), old, changed)))
	return edited
}
