package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace writes a file that is its owner's alone (mode 0600). A reader, or a crash, finds
// the old content or the new, and the new one lasts once Replace has returned nil.
func Replace(file string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), partOf(file)) // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	return syncFolder(filepath.Dir(file))
}

// RemoveParts removes what a process left that was killed while it replaced a file. No
// other process may be replacing it meanwhile.
func RemoveParts(file string) {
	parts, _ := filepath.Glob(filepath.Join(filepath.Dir(file), partOf(file)))
	for _, p := range parts {
		_ = os.Remove(p)
	}
}

// partOf is the pattern of the names that a file has while it is written.
func partOf(file string) string { return "." + filepath.Base(file) + "-*" }

// syncFolder makes the renaming last.
func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
