package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeTarget runs a target of the Makefile on a folder dist/ of files, with a gh that writes down what it is called with.
func makeTarget(t *testing.T, dist map[string]string, args ...string) (called []string, out string, err error) {
	t.Helper()
	makefile, err := filepath.Abs("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	calls := filepath.Join(folder, "calls")
	write(t, filepath.Join(folder, "bin/gh"), "#!/bin/sh\nprintf '%s\\n' \"$@\" >'"+calls+"'\n")
	for name, text := range dist {
		write(t, filepath.Join(folder, "dist", name), text)
	}
	c := exec.Command("make", append([]string{"--no-print-directory", "-f", makefile, "-C", folder}, args...)...)
	c.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	answer, err := c.CombinedOutput()
	text, readErr := os.ReadFile(calls)
	if readErr == nil {
		called = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return called, string(answer), err
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// sumOfX is the SHA-256 of the letter x.
const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

func TestOnlyAWholeSignedReleaseOfThisVersionIsPublished(t *testing.T) {
	const archive = "plinth_v1.2.3_linux_amd64.tar.gz"
	whole := map[string]string{archive: "x", "SHA256SUMS": sumOfX + "  " + archive + "\n", "NOTES.md": "notes"}
	with := func(name, text string) map[string]string {
		changed := map[string]string{name: text}
		for n, t := range whole {
			if n != name {
				changed[n] = t
			}
		}
		return changed
	}
	for _, c := range []struct {
		name, version string
		dist          map[string]string
		want          string
	}{
		{"signed", "v1.2.3", with("SHA256SUMS.sigstore.json", "{}"), ""},
		{"unsigned", "v1.2.3", whole, "make sign first"},
		{"with an empty signature", "v1.2.3", with("SHA256SUMS.sigstore.json", ""), "make sign first"},
		{"of another version", "v1.2.4", with("SHA256SUMS.sigstore.json", "{}"), "dist/ has no release v1.2.4"},
		{"with a file that was changed", "v1.2.3", with(archive, "y"), archive + ": FAILED"},
		{"without anything", "v1.2.3", nil, "dist/ has no release v1.2.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			called, out, err := makeTarget(t, c.dist, "publish-files", "VERSION="+c.version)
			if c.want == "" {
				if err != nil || !slices.Contains(called, "dist/SHA256SUMS.sigstore.json") || !slices.Contains(called, "--verify-tag") {
					t.Errorf("gh was called with %q (%v)\n%s", called, err, out)
				}
			} else if err == nil || called != nil || !strings.Contains(out, c.want) {
				t.Errorf("gh was called with %q (%v), want none and %q in\n%s", called, err, c.want, out)
			}
		})
	}
}

// TestACandidateDoesNotBecomeTheLatestRelease: GitHub offers the latest release that is not
// marked, to whoever asks for no version.
func TestACandidateDoesNotBecomeTheLatestRelease(t *testing.T) {
	for version, want := range map[string]bool{"v1.2.3": false, "v1.2.3-rc.1": true} {
		archive := "plinth_" + version + "_linux_amd64.tar.gz"
		dist := map[string]string{archive: "x", "SHA256SUMS": sumOfX + "  " + archive + "\n", "NOTES.md": "notes", "SHA256SUMS.sigstore.json": "{}"}
		called, out, err := makeTarget(t, dist, "publish-files", "VERSION="+version)
		if err != nil || slices.Contains(called, "--prerelease") != want {
			t.Errorf("%s: gh was called with %q (%v)\n%s", version, called, err, out)
		}
	}
}

func TestWhatWasChangedSinceIsNotSigned(t *testing.T) {
	const archive = "plinth_v1.2.3_linux_amd64.tar.gz"
	dist := map[string]string{archive: "x", "SHA256SUMS": sumOfX + "  " + archive + "\n"}
	if _, out, err := makeTarget(t, dist, "sign", "VERSION=v1.2.3", "COSIGN=gh"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	dist[archive] = "y"
	if called, out, err := makeTarget(t, dist, "sign", "VERSION=v1.2.3", "COSIGN=gh"); err == nil || called != nil {
		t.Errorf("signed as %q\n%s", called, out)
	}
}

func TestNothingToPublishIsAMistake(t *testing.T) {
	if out, err := exec.Command("go", "run", ".").CombinedOutput(); err == nil || !strings.Contains(string(out), "usage: publish") {
		t.Errorf("it ends with %v and says\n%s", err, out)
	}
}

// TestTheRegistryIsInSmallLetters: an image's name has no others, an owner on GitHub may.
func TestTheRegistryIsInSmallLetters(t *testing.T) {
	_, out, err := makeTarget(t, nil, "-n", "release", "VERSION=v1.2.3", "REGISTRY=ghcr.io/Owner/Plinth")
	if err != nil || strings.Contains(out, "ghcr.io/Owner") || !strings.Contains(out, "-registry ghcr.io/owner/plinth") {
		t.Errorf("%v\n%s", err, out)
	}
}
