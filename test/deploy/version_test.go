package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// As built by make, which hands version and commit to the linker. The metric plinth_build_info has both from where the program has
// them.
func TestEveryProgramSaysItsVersion(t *testing.T) {
	for folder, want := range map[string]string{
		"plinth":                   "plinth version " + version + "\n",
		"node-agent":               "plinth-agent version " + version + "\n",
		"cloud-controller-manager": "plinth-cloud-controller-manager version " + version + "\n",
	} {
		t.Run(folder, func(t *testing.T) {
			program := built(t, folder)
			if out := run(t, exec.Command(program, "--version"), ""); out != want {
				t.Errorf("it says %q, want %q", out, want)
			}
			if folder != "plinth" {
				return
			}
			if out := run(t, exec.Command(program, "version"), ""); out != version+"\n" {
				t.Errorf("plinth version says %q", out)
			}
			var fields map[string]string
			commit := regexp.MustCompile(`buildinfo\.Revision=([0-9a-f]*) `).FindStringSubmatch(run(t, exec.Command("make", "--dry-run", "--no-print-directory", "-C", "../..", "build"), ""))[1]
			if err := json.Unmarshal([]byte(run(t, exec.Command(program, "version", "-o", "json"), "")), &fields); err != nil || fields["version"] != version || fields["revision"] != commit {
				t.Errorf("plinth version -o json says %v, %v; the commit is %s", fields, err, commit)
			}
		})
	}
}

// An image holds what make builds for it: here is what make would run.
func TestImagesAreMadeOfProgramsThatKnowTheirVersion(t *testing.T) {
	out := run(t, exec.Command("make", "--dry-run", "--no-print-directory", "-C", "../..", "images", "VERSION=v9.8.7"), "")
	if labels := regexp.MustCompile(`go run -C release \./images -version 'v9\.8\.7' -revision '[0-9a-f]{40}'`); !labels.MatchString(out) {
		t.Errorf("the images' labels have another version or commit:\n%s", out)
	}
	builds := regexp.MustCompile(`go build .*`).FindAllString(out, -1)
	if len(builds) != 2 { // in a loop over the platforms
		t.Fatalf("make images builds %d programs, want 2:\n%s", len(builds), out)
	}
	for _, b := range builds {
		if !strings.Contains(b, "-X k8s.io/client-go/pkg/version.gitCommit=") {
			t.Errorf("the commit does not reach the linker: %s", b)
		}
		// In user agents it is ours. What the framework says of itself, and decides feature
		// gates by, is its own.
		for _, want := range []string{`-X plinth\.dev/plinth/buildinfo\.Version=v9\.8\.7 `, `-X k8s\.io/client-go/pkg/version\.gitVersion=v9\.8\.7 `, `-X k8s\.io/component-base/version\.gitVersion=v1\.[0-9]+\.[0-9]+ `} {
			if !regexp.MustCompile(want).MatchString(b) {
				t.Errorf("%s does not reach the linker: %s", want, b)
			}
		}
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
