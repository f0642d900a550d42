package metallb

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plinth.dev/plinth/test/components"
)

// Build builds its two programs into a folder, and takes its resources from its module.
func Build(folder string) error {
	root, err := components.Root()
	if err != nil {
		return err
	}
	source := filepath.Join(root, "test", "bench", "metallb", "module")
	modfile, err := withoutLimit(source, folder)
	if err != nil {
		return err
	}
	for program, pkg := range map[string]string{Controller: "controller", Speaker: "speaker"} {
		flags := slices.Concat(components.Shipped, []string{"-modfile", modfile, "-o", filepath.Join(folder, program), "go.universe.tf/metallb/" + pkg})
		if err := components.GoBuild(context.Background(), source, flags...); err != nil {
			return err
		}
	}
	return copyResources(source, folder)
}

const framework = "sigs.k8s.io/controller-runtime"

// withoutLimit writes a go.mod that has MetalLB built without the limit of 20 requests
// a second that its framework sets: with it, it serves 20 Services a second, and every
// comparison would be with that number. Its newer versions have no such limit.
func withoutLimit(source, folder string) (modfile string, err error) {
	dir, err := moduleDir(source, framework)
	if err != nil {
		return "", err
	}
	// A copy of it, since what the go command keeps is not to be changed.
	changed := filepath.Join(folder, "framework")
	if err := os.CopyFS(changed, os.DirFS(dir)); err != nil {
		return "", err
	}
	if err := rewrite(filepath.Join(changed, "pkg", "client", "config", "config.go"), "cfg.QPS = 20.0", "cfg.QPS = -1"); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", framework, changed)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, "go.mod"), nil
}

func rewrite(file, old, new string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), old) {
		return fmt.Errorf("%s does not say %q any more", file, old)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
}

// moduleDir is where a module is, which is downloaded if it is not there yet.
func moduleDir(source, module string) (string, error) {
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = source
	out, err := components.AsCaller(download).Output()
	if err != nil {
		return "", fmt.Errorf("downloading the module %s: %w: %s", module, err, out)
	}
	var there struct{ Dir string }
	if err := json.Unmarshal(out, &there); err != nil {
		return "", fmt.Errorf("where the module %s is: %w", module, err)
	}
	return there.Dir, nil
}

var format = regexp.MustCompile(`(?m)^ *format: int32\n`)

// copyResources copies MetalLB's own definitions of its resources. An ASN has a larger
// maximum there than its format allows, for which a newer API server refuses every
// BGPPeer; it goes without the format.
func copyResources(source, folder string) error {
	dir, err := moduleDir(source, "go.universe.tf/metallb")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no resources in %s: %w", dir, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "crd-"+filepath.Base(f)), format.ReplaceAll(text, nil), 0o600); err != nil {
			return err
		}
	}
	return nil
}
