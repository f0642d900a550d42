package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tracked says which files of folder are not the repository's: chart and manifests are made of what
// is on the disk, and the same commit is to give the same release. Files that git ignores count too,
// such as an editor's copies. Sources that are no git checkout have nothing to be held against.
func (o options) tracked(folder string) error {
	if _, err := os.Stat(filepath.Join(o.root, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out, err := exec.Command("git", "-C", o.root, "ls-files", "-z", "--others", "--", folder).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("git ls-files: %w: %s", err, exit.Stderr)
	} else if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	if others := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }); len(others) > 0 {
		return fmt.Errorf("%s: not in git, and a release has nothing else: commit or remove it", strings.Join(others, ", "))
	}
	return nil
}
