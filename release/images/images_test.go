package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// TestAnImageSaysWhatItIs reads the archives as who imports them would.
func TestAnImageSaysWhatItIs(t *testing.T) {
	o := makeImages(t)
	for _, p := range shipped {
		index := read(t, filepath.Join(o.out, p.name+".tar"))
		top, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(top.Manifests) != 1 {
			t.Fatalf("%s: %d images in the archive, want one", p.name, len(top.Manifests))
		}
		if have, want := top.Manifests[0].Annotations["io.containerd.image.name"], "registry.example.com/plinth/"+p.name+":v1.2.3"; have != want {
			t.Errorf("the archive's image is named %q, want %q", have, want)
		}
		all, err := index.ImageIndex(top.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := all.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, m := range manifest.Manifests {
			have = append(have, m.Platform.String())
			checkImage(t, all, m, p, o)
		}
		if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(have, want) {
			t.Errorf("%s is for %v, want %v", p.name, have, want)
		}
	}
}

func checkImage(t *testing.T, all v1.ImageIndex, m v1.Descriptor, p program, o options) {
	t.Helper()
	img, err := all.Image(m.Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != m.Platform.Architecture || config.Config.User != p.user || !slices.Equal(config.Config.Entrypoint, []string{"/" + p.name}) {
		t.Errorf("%s for %s: architecture %s, user %q, entry point %v", p.name, m.Platform, config.Architecture, config.Config.User, config.Config.Entrypoint)
	}
	want := map[string]string{
		"org.opencontainers.image.title": p.name, "org.opencontainers.image.description": p.description,
		"org.opencontainers.image.version": "v1.2.3", "org.opencontainers.image.revision": "0123abc",
		"org.opencontainers.image.source": source, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.created": "2026-01-02T03:04:05Z",
	}
	if !maps.Equal(config.Config.Labels, want) {
		t.Errorf("%s for %s has the labels %v, want %v", p.name, m.Platform, config.Config.Labels, want)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s: %d layers, want one (%v)", p.name, len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(content)
	h, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := os.ReadFile(o.program(p.name, m.Platform.Architecture))
	if err != nil {
		t.Fatal(err)
	}
	if h.Name != p.name || h.FileInfo().Mode().Perm() != 0o555 || string(data) != string(wanted) {
		t.Errorf("the image of %s has %s with mode %v and %d bytes; the program has %d", p.name, h.Name, h.FileInfo().Mode(), len(data), len(wanted))
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the image of %s has more than one file", p.name)
	}
}

// TestTwoRunsGiveTheSameBytes also touches the programs in between, as a build does.
func TestTwoRunsGiveTheSameBytes(t *testing.T) {
	o := makeImages(t)
	first := files(t, o.out)
	for _, p := range shipped {
		for _, arch := range o.architectures {
			now := time.Now()
			if err := os.Chtimes(o.program(p.name, arch), now, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	o.out = t.TempDir()
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	second := files(t, o.out)
	want := []string{
		"plinth-agent.tar", "plinth-agent_linux_amd64.cdx.json", "plinth-agent_linux_arm64.cdx.json",
		"plinth-cloud-controller-manager.tar", "plinth-cloud-controller-manager_linux_amd64.cdx.json", "plinth-cloud-controller-manager_linux_arm64.cdx.json",
	}
	if have := slices.Sorted(maps.Keys(first)); !slices.Equal(have, want) {
		t.Fatalf("written: %v, want %v", have, want)
	}
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

// TestTheSBOMListsModules has the program list the modules that this very test is built of.
func TestTheSBOMListsModules(t *testing.T) {
	o := makeImages(t)
	in, err := os.Open(filepath.Join(o.out, "plinth-agent_linux_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(in, cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("the SBOM is of version %q", bom.Metadata.Component.Version)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == name && c.Version != "" })
	}
	for _, name := range []string{"std", "github.com/google/go-containerregistry"} {
		if !has(name) {
			t.Errorf("the SBOM does not have %s with its version", name)
		}
	}
}

// TestAMissingProgramIsNamed: an image of nothing must not be made.
func TestAMissingProgramIsNamed(t *testing.T) {
	o := makeImages(t)
	missing := o.program("plinth-agent", "arm64")
	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	o.out = t.TempDir()
	if err := run(o); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one that names %s", err, missing)
	}
	if _, err := os.Stat(filepath.Join(o.out, "plinth-agent.tar")); !os.IsNotExist(err) {
		t.Errorf("there is an archive all the same (%v)", err)
	}
}

// makeImages makes both images of this test's own executable, which stands for all programs.
func makeImages(t *testing.T) options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := options{
		version: "v1.2.3", revision: "0123abc", epoch: made.Unix(), registry: "registry.example.com/plinth",
		architectures: []string{"amd64", "arm64"}, programs: t.TempDir(), out: t.TempDir(),
	}
	for _, p := range shipped {
		for _, arch := range o.architectures {
			if err := os.MkdirAll(filepath.Dir(o.program(p.name, arch)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(o.program(p.name, arch), data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	return o
}

// files returns the content of every file in a folder, by name.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[e.Name()] = string(data)
	}
	return content
}

// read opens an archive by unpacking it.
func read(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	folder := t.TempDir()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var version struct {
		ImageLayoutVersion string `json:"imageLayoutVersion"`
	}
	data, err := os.ReadFile(filepath.Join(folder, "oci-layout"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &version); err != nil || version.ImageLayoutVersion != "1.0.0" {
		t.Errorf("oci-layout: %s (%v)", data, err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	return index
}
