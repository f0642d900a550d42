package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"plinth.dev/plinth/test/components"
)

// binaries says where the programs are that a lab runs.
type binaries struct {
	folder string            // the lab's own bin: links to all of the control plane
	plinth string            // Plinth's programs, the lab's kubelet and supervisor
	found  map[string]string // program of the control plane -> file
}

// findBinaries finds the control plane, or builds it, and builds the lab's kubelet and supervisor.
func (l *Lab) findBinaries(ctx context.Context) (binaries, error) {
	b := binaries{folder: filepath.Join(l.Dir(), "bin"), plinth: filepath.Join(l.record.Root, "bin")}
	var err error
	if b.found, err = components.Find(ctx, l.say); err != nil {
		return b, err
	}
	return b, l.buildTree(ctx, "test", "./lab/cmd/lab-kubelet", "./lab/cmd/lab-supervisor")
}

// buildTree builds programs of the source tree into its bin. Without a Go
// toolchain, programs that are there already will do.
func (l *Lab) buildTree(ctx context.Context, module string, pkgs ...string) error {
	bin := filepath.Join(l.record.Root, "bin")
	if _, err := exec.LookPath("go"); errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err := components.AsCaller(exec.CommandContext(ctx, "mkdir", "-p", bin)).Run(); err != nil {
		return fmt.Errorf("making %s: %w", bin, err)
	}
	return components.GoBuild(ctx, filepath.Join(l.record.Root, module), slices.Concat(components.Shipped, []string{"-o", bin + "/"}, pkgs)...)
}
