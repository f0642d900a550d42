package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	version  = "v1.2.3"
	registry = "registry.example.com/plinth"
	download = "https://example.com/releases"
	source   = "https://example.com/plinth/blob"
)

// TestTwoReleasesOfTheSameInputAreTheSameBytes touches all input in between, as a checkout and
// a build do.
func TestTwoReleasesOfTheSameInputAreTheSameBytes(t *testing.T) {
	o := makeRelease(t)
	first := files(t, o.out)
	now := time.Now()
	for _, folder := range []string{o.programs, o.images, o.root} {
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, now, now))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	o.out = filepath.Join(t.TempDir(), "dist")
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	second := files(t, o.out)
	if have, want := slices.Sorted(maps.Keys(second)), slices.Sorted(maps.Keys(first)); !slices.Equal(have, want) {
		t.Fatalf("the second has %v, the first %v", have, want)
	}
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs between two releases", name)
		}
	}
}

func TestAReleaseHasAllThatTheGuideNames(t *testing.T) {
	o := makeRelease(t)
	var want []string
	for program, all := range platforms {
		for _, p := range all {
			want = append(want, o.archive(program, p), fmt.Sprintf("%s_%s_%s.cdx.json", program, version, p))
		}
	}
	for _, name := range images {
		want = append(want, name+"_"+version+"_image.oci.tar")
	}
	want = append(want, "plinth-1.2.3.tgz", "install.yaml", "install-one-controller.yaml", "install-on-link.yaml", "install-on-link-one-controller.yaml", "install-webhook.yaml",
		"deny-external-ips.yaml", "plinth.yaml", "NOTES.md", "SHA256SUMS")
	slices.Sort(want)
	have := slices.Sorted(maps.Keys(files(t, o.out)))
	if !slices.Equal(have, want) {
		t.Errorf("a release is\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	guide, err := os.ReadFile("../../docs/guides/releases.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		pattern := strings.NewReplacer("1.2.3", "1.2.3", "_darwin_", "_OS_", "_linux_", "_OS_", "_windows_", "_OS_", "arm64", "ARCH", "amd64", "ARCH").Replace(name)
		if !strings.Contains(string(guide), "`"+pattern+"`") {
			t.Errorf("docs/guides/releases.md does not name %s", pattern)
		}
	}
}

func TestTheChecksumsAreOfAllFiles(t *testing.T) {
	o := makeRelease(t)
	sums := files(t, o.out)[sumsFile]
	lines := strings.Split(strings.TrimSpace(sums), "\n")
	if want := len(files(t, o.out)) - 1; len(lines) != want {
		t.Errorf("%d checksums of %d files", len(lines), want)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if have, err := checksum(filepath.Join(o.out, name)); err != nil || have != sum {
			t.Errorf("%s: checksum %s, want %s (%v)", name, sum, have, err)
		}
	}
}

func TestEachArchiveHasTheProgramAndTheLicense(t *testing.T) {
	o := makeRelease(t)
	for program, all := range platforms {
		for _, p := range all {
			packed := []byte(files(t, o.out)[o.archive(program, p)])
			have := untar
			if p.os == "windows" {
				have = unzip
			}
			content := have(t, packed)
			want := program + " for " + p.String()
			if !strings.HasSuffix(content[p.file(program)], want) || !strings.Contains(content["LICENSE"], "Apache License") || len(content) != 2 {
				t.Errorf("the archive of %s has %v", want, slices.Sorted(maps.Keys(content)))
			}
		}
	}
}

func TestTheChartIsOfThisVersionAndItsImages(t *testing.T) {
	o := makeRelease(t)
	chart := untar(t, []byte(files(t, o.out)["plinth-1.2.3.tgz"]))
	var about struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(chart["plinth/Chart.yaml"]), &about); err != nil || about.Name != "plinth" || about.Version != "1.2.3" || about.AppVersion != "1.2.3" {
		t.Errorf("Chart.yaml says %+v, %v", about, err)
	}
	type image struct{ Image struct{ Repository string } }
	var values struct{ Controller, Agent image }
	if err := yaml.Unmarshal([]byte(chart["plinth/values.yaml"]), &values); err != nil {
		t.Fatal(err)
	}
	if have := values.Agent.Image.Repository; have != registry+"/plinth-agent" {
		t.Errorf("the agents' image is %s", have)
	}
	if have := values.Controller.Image.Repository; have != registry+"/plinth-cloud-controller-manager" {
		t.Errorf("the controller's image is %s", have)
	}
	if link := "](" + source + "/" + version + "/docs/guides/install.md)"; !strings.Contains(chart["plinth/README.md"], link) {
		t.Errorf("the chart's README has no link %s", link)
	}
	if chart["plinth/values.schema.json"] == "" || chart["plinth/templates/agent.yaml"] == "" {
		t.Errorf("the chart has only %v", slices.Sorted(maps.Keys(chart)))
	}
}

func TestTheManifestsNameTheImagesOfThisVersion(t *testing.T) {
	o := makeRelease(t)
	all := files(t, o.out)
	image := regexp.MustCompile(`image: (.*)`)
	for name, replicas := range map[string]string{
		"install.yaml": "2", "install-one-controller.yaml": "1", "install-on-link.yaml": "2", "install-on-link-one-controller.yaml": "1", "install-webhook.yaml": "2",
	} {
		var have []string
		for _, m := range image.FindAllStringSubmatch(all[name], -1) {
			have = append(have, m[1])
		}
		slices.Sort(have)
		if want := []string{registry + "/plinth-agent:v1.2.3", registry + "/plinth-cloud-controller-manager:v1.2.3"}; !slices.Equal(have, want) {
			t.Errorf("%s has the images %v, want %v", name, have, want)
		}
		if elsewhere := strings.Count(all[name], "namespace: kube-system"); elsewhere != 1 { // one RoleBinding
			t.Errorf("%s has %d objects or subjects in kube-system", name, elsewhere)
		}
		if !strings.Contains(all[name], "replicas: "+replicas+"\n") {
			t.Errorf("%s does not have %s controllers", name, replicas)
		}
		if onLink := strings.Contains(name, "on-link"); strings.Contains(all[name], "- NET_RAW\n") != onLink {
			t.Errorf("%s: agents may answer on the link: %v, want %v", name, !onLink, onLink)
		}
	}
	if !strings.Contains(all["install-webhook.yaml"], "kind: ValidatingWebhookConfiguration") {
		t.Error("install-webhook.yaml has no webhook")
	}
	if text := all["deny-external-ips.yaml"]; !strings.Contains(text, "name: plinth-external-ips") || strings.Contains(text, "kind: DaemonSet") {
		t.Errorf("deny-external-ips.yaml is\n%s", text)
	}
}

func TestKrewFindsEachArchiveWithItsChecksum(t *testing.T) {
	o := makeRelease(t)
	var plugin struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Version          string
			ShortDescription string
			Platforms        []struct {
				Selector    struct{ MatchLabels map[string]string }
				URI, SHA256 string
				Bin         string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(strings.NewReplacer("apiVersion: krew.googlecontainertools.github.com/v1alpha2\n", "",
		"  homepage: https://plinth.dev/plinth\n", "").Replace(dropDescription(files(t, o.out)["plinth.yaml"]))), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Kind != "Plugin" || plugin.Metadata.Name != "plinth" || plugin.Spec.Version != version || len(plugin.Spec.ShortDescription) > 70 {
		t.Errorf("the manifest is of %+v", plugin)
	}
	var have []string
	for _, p := range plugin.Spec.Platforms {
		of := platform{p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]}
		have = append(have, of.String())
		sum, err := checksum(filepath.Join(o.out, o.archive("plinth", of)))
		if err != nil || p.SHA256 != sum || p.URI != download+"/v1.2.3/"+o.archive("plinth", of) || p.Bin != of.file("plinth") {
			t.Errorf("%s: %+v (%v)", of, p, err)
		}
	}
	if want := []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}; !slices.Equal(have, want) {
		t.Errorf("it is for %v, want %v", have, want)
	}
}

// dropDescription leaves out the only field that is free text.
func dropDescription(manifest string) string {
	before, rest, _ := strings.Cut(manifest, "  description: |\n")
	_, after, _ := strings.Cut(rest, "  platforms:\n")
	return before + "  platforms:\n" + after
}

func TestTheNotesAreTheVersionsSectionOfTheChangelog(t *testing.T) {
	const log = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- b\n\n## [1.2.3] - 2026-01-02\n\n### Action required\n\n- a\n\n## [1.2.2] - 2026-01-01\n\n- z\n\n## [1.2.1] - 2025-12-01\n"
	for _, c := range []struct{ number, want, problem string }{
		{"1.2.3", "### Action required\n\n- a", ""},
		{"1.2.2", "- z", ""},
		{"1.3.0-rc.1", "### Added\n\n- b", ""},
		{"1.2.1", "", "says nothing of 1.2.1"},
		{"2.0.0", "", `no section "## [2.0.0]"`},
	} {
		have, err := cut(log, c.number)
		if have != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v", c.number, have, err)
		}
	}
}

func TestLinksOfTheNotesLeadToTheFilesOfTheirVersion(t *testing.T) {
	o := makeRelease(t)
	want := "- all of it, as [the guide](" + source + "/" + version + "/docs/guides/install.md#upgrade) and [SemVer](https://semver.org) say\n"
	if have := files(t, o.out)["NOTES.md"]; !strings.HasSuffix(string(have), want) {
		t.Errorf("%s\nwant %s", have, want)
	}
}

func TestAReleaseThatCannotBeMadeSaysWhy(t *testing.T) {
	for _, c := range []struct {
		change func(*options)
		want   string
	}{
		{func(o *options) { o.version = "1.2.3" }, "want one such as v1.2.3"},
		{func(o *options) { o.version = "v1.2" }, "want one such as v1.2.3"},
		{func(o *options) { o.version = "v1.2.3+dirty" }, "want one such as v1.2.3"},
		{func(o *options) { o.registry = "" }, "-registry, -download and -source are needed"},
		{func(o *options) { o.out = "" }, "-root and -out are needed"},
		{func(o *options) { o.only = []string{"everything"} }, "the parts are programs, images"},
		{func(o *options) { o.programs = t.TempDir() }, "no such file"},
	} {
		o := input(t)
		c.change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("it says %v, want %q", err, c.want)
		}
	}
}

func TestAReleaseHasNoFileThatIsNotInGit(t *testing.T) {
	o := input(t)
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}} {
		if out, err := exec.Command("git", append([]string{"-C", o.root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	put(t, filepath.Join(o.root, "notes.txt"), []byte("no part of a release"))
	if err := run(o); err != nil {
		t.Fatal("of what git has alone:", err)
	}
	put(t, filepath.Join(o.root, ".git/info/exclude"), []byte("*.orig\n"))
	for _, name := range []string{"deploy/helm/plinth/templates/mine.yaml", "deploy/helm/plinth/values.yaml.orig"} {
		file := filepath.Join(o.root, name)
		put(t, file, []byte("{}"))
		before := files(t, o.out)
		if err := run(o); err == nil || !strings.Contains(err.Error(), name+": not in git") {
			t.Errorf("%s: it says %v", name, err)
		}
		if !maps.Equal(files(t, o.out), before) {
			t.Errorf("%s: what was released before is gone", name)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// makeRelease makes a release of programs that a small one stands for.
func makeRelease(t *testing.T) options {
	t.Helper()
	o := input(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	return o
}

// input is all that a release is made of: the repository's own files, programs that end with
// their names, and images that are their names.
func input(t *testing.T) options {
	t.Helper()
	program := stub(t)
	o := options{
		version: version, epoch: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix(), registry: registry, download: download, source: source,
		programs: t.TempDir(), images: t.TempDir(), root: t.TempDir(), out: filepath.Join(t.TempDir(), "dist"),
	}
	for name, all := range platforms {
		for _, p := range all {
			put(t, filepath.Join(o.programs, p.os+"-"+p.arch, p.file(name)), slices.Concat(program, []byte(name+" for "+p.String())))
		}
	}
	for _, name := range images {
		put(t, filepath.Join(o.images, name+".tar"), []byte(name))
	}
	if err := os.CopyFS(filepath.Join(o.root, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(o.root, "LICENSE"), license)
	put(t, filepath.Join(o.root, "CHANGELOG.md"), []byte("# Changelog\n\n## [1.2.3] - 2026-01-02\n\n- all of it, as [the guide](docs/guides/install.md#upgrade) and [SemVer](https://semver.org) say\n"))
	return o
}

// stub is the executable of testdata/program: a release reads from a program what it was built of.
func stub(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", file, "./testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func put(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
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

func untar(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	g, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for r := tar.NewReader(g); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		content[h.Name] = string(data)
	}
}

func unzip(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		content[f.Name] = string(data)
	}
	return content
}
