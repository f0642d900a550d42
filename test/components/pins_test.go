package components

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever asks for 1.33 gets 1.33, and whoever asks for nothing the newest.
func TestTheVariableChoosesAmongThePins(t *testing.T) {
	pins, err := Pins()
	if err != nil {
		t.Fatal(err)
	}
	if len(pins) < 3 {
		t.Fatalf("%d versions are pinned, want the oldest, 1.34 and the newest at least: %v", len(pins), pins)
	}
	for i, p := range pins {
		t.Setenv(KubernetesVariable, p.Minor)
		if have, err := Chosen(); err != nil || have != p {
			t.Errorf("%s chooses %v, %v", p.Minor, have, err)
		}
		if i > 0 && pins[i-1].minor() >= p.minor() {
			t.Errorf("%s comes after %s", p.Minor, pins[i-1].Minor)
		}
		if folder := filepath.Base(p.source); folder != kubernetesSource && folder != "v"+p.Minor {
			t.Errorf("test/%s pins Kubernetes %s", p.source, p.Kubernetes)
		}
	}
	t.Setenv(KubernetesVariable, "")
	if have, err := Chosen(); err != nil || have.source != kubernetesSource || have != pins[len(pins)-1] {
		t.Errorf("the newest is %v, %v; want that of test/%s, and nothing newer beside it", have, err, kubernetesSource)
	}
	t.Setenv(KubernetesVariable, "1.2")
	if _, err := Chosen(); err == nil || !strings.Contains(err.Error(), "PLINTH_TEST_KUBERNETES=1.2: ") || !strings.Contains(err.Error(), pins[0].Minor) {
		t.Errorf("a version that is not pinned: %v", err)
	}
}

// Programs of another version must not stand in for those that were asked for.
func TestAssetsAreNotUsedForAVersionThatWasAskedFor(t *testing.T) {
	assets := t.TempDir()
	writeProgram(t, filepath.Join(assets, "etcd"))
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	for version, want := range map[string]string{"": assets, "1.33": "cache"} {
		t.Setenv(KubernetesVariable, version)
		if have := place("cache", "etcd"); have != filepath.Join(want, "etcd") {
			t.Errorf("with %s=%q etcd is %s, want the one of %s", KubernetesVariable, version, have, want)
		}
	}
}

func writeProgram(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
