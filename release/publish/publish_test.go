package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestAPushedImageArrivesWhole makes an image as make does, pushes it to a registry, and
// reads it back from there.
func TestAPushedImageArrivesWhole(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	where := strings.TrimPrefix(server.URL, "http://") + "/plinth"
	pushed, err := push(madeFor(t, where))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(pushed, where+"/plinth-agent:v1.2.3@sha256:") {
		t.Errorf("pushed as %s", pushed)
	}
	tag, err := name.ParseReference(where + "/plinth-agent:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := index.Digest(); err != nil || !strings.HasSuffix(pushed, "@"+digest.String()) {
		t.Errorf("the registry has %s (%v), it was pushed as %s", digest, err, pushed)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("the registry has %d platforms, want two", len(manifest.Manifests))
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
			t.Errorf("%s: %v, %v", m.Platform, config, err)
		}
	}
}

// TestWhatIsMadeForNobodysRegistryIsNotPushed: make release without a REGISTRY makes images that can be imported, of a name that
// nobody but Docker may publish.
func TestWhatIsMadeForNobodysRegistryIsNotPushed(t *testing.T) {
	pushed, err := push(madeFor(t, "docker.io/library"))
	if err == nil || !strings.Contains(err.Error(), "make release REGISTRY=") {
		t.Errorf("pushed as %q, %v", pushed, err)
	}
}

// madeFor is the archive of the agent's image, as make makes it, for a registry.
func madeFor(t *testing.T, registry string) (archive string) {
	t.Helper()
	programs, out := t.TempDir(), t.TempDir()
	for _, program := range []string{"plinth-agent", "plinth-cloud-controller-manager"} {
		for _, arch := range []string{"amd64", "arm64"} {
			run(t, "go", "build", "-o", filepath.Join(programs, "linux-"+arch, program), "../dist/testdata/program")
		}
	}
	run(t, "go", "run", "../images", "-version", "v1.2.3", "-revision", "0123abc", "-registry", registry, "-programs", programs, "-out", out)
	return filepath.Join(out, "plinth-agent.tar")
}

func TestAnArchiveIsUnpackedWithinItsFolder(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "evil.tar")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "--create", "--absolute-names", "--file", archive, "--transform", "s,.*,../outside,", outside)
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unpack(archive, folder); err == nil {
		t.Error("a file was written outside")
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s %v: %w\n%s", program, args, err, out))
	}
}
