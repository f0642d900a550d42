package plinth_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// workflow is what the rules below look at. They hold for every file of .github/workflows: what
// runs there must run anywhere, and may no more than it says.
type workflow struct {
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `yaml:"permissions"`
		Timeout     int               `yaml:"timeout-minutes"`
		Steps       []step            `yaml:"steps"`
	} `yaml:"jobs"`
}

type step struct {
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	With map[string]any    `yaml:"with"`
	Env  map[string]string `yaml:"env"`
}

// pinned are the actions that may be used, by commit.
var pinned = map[string]string{
	"actions/checkout": "de0fac2e4500dabe0009e67214ff5f5447ce83dd", // v6.0.2
	"actions/setup-go": "4a3601121dd01d1626a1e23e37211e3254c1c06c", // v6.4.0
}

// grants are the rights that a job may ask for beyond reading the sources, by workflow.
var grants = map[string]map[string]string{
	"release.yaml": {"contents": "write", "packages": "write", "id-token": "write"},
}

// TestTheGateRunsWholeOrByParts calls .ci/run with a make that says what it is asked for.
func TestTheGateRunsWholeOrByParts(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "make"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, parts := range map[string][]string{
		"<test>":                  nil,
		"<test><PARTS=lint>":      {"lint"},
		"<test><PARTS=lint unit>": {"lint", "unit"},
		"<test><PARTS=lint,unit>": {"lint,unit"},
	} {
		gate := exec.Command(".ci/run", parts...)
		gate.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		if out, err := gate.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf(".ci/run %v: make gets %s (%v), want %s", parts, out, err, want)
		}
	}
}

func TestWorkflowsCallNothingButMake(t *testing.T) {
	targets := makeTargets(t)
	call := regexp.MustCompile(`^make ([a-z][a-z0-9-]*)$`)
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			for _, s := range j.Steps {
				action, commit, uses := strings.Cut(s.Uses, "@")
				target := call.FindStringSubmatch(s.Run)
				switch {
				case uses && s.Run == "" && pinned[action] == commit && commit != "":
				case s.Uses == "" && target != nil && slices.Contains(targets, target[1]):
				default:
					t.Errorf("%s, %s: %+v is neither a target of make nor an action that is pinned here", name, job, s)
				}
				if action == "actions/checkout" && s.With["persist-credentials"] != false {
					t.Errorf("%s, %s: the token stays in the checkout for every later step", name, job)
				}
			}
		}
	}
}

func TestWorkflowsMayNoMoreThanTheySay(t *testing.T) {
	for name, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s may %v by default, want to read the sources alone", name, w.Permissions)
		}
		for event := range w.On {
			if !slices.Contains([]string{"push", "pull_request", "schedule", "workflow_dispatch"}, event) {
				t.Errorf("%s runs on %s", name, event) // pull_request_target would hand secrets to strangers
			}
		}
		for job, j := range w.Jobs {
			if j.Timeout == 0 || len(j.Permissions) == 0 {
				t.Errorf("%s, %s: no timeout, or no permissions", name, job)
			}
			for right, level := range j.Permissions {
				if grants[name][right] != level && (right != "contents" || level != "read") {
					t.Errorf("%s, %s may %s: %s", name, job, right, level)
				}
			}
		}
	}
}

func TestTheGuideNamesEverySecretOfTheWorkflows(t *testing.T) {
	guide, err := os.ReadFile("docs/guides/releases.md")
	if err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile(`secrets\.(\w+)`)
	found := 0
	for _, file := range workflowFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range secret.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(string(guide), "`"+m[1]+"`") {
				t.Errorf("%s uses secret %s, of which the guide says nothing", file, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no workflow uses a secret: this test says nothing")
	}
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.*## `).FindAllStringSubmatch(string(makefile), -1) {
		all = append(all, m[1])
	}
	return all
}

func workflowFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(".github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows (%v)", err)
	}
	return files
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	all := map[string]workflow{}
	for _, file := range workflowFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil || len(w.Jobs) == 0 {
			t.Fatalf("%s: %d jobs, %v", file, len(w.Jobs), err)
		}
		all[filepath.Base(file)] = w
	}
	return all
}
