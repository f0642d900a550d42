package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroups = "/sys/fs/cgroup"

// controllers are those of cgroup v1 that a kubelet and runc ask for.
var controllers = []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids", "systemd"}

// unified reports whether the host has cgroup v2 alone.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	return err == nil
}

// cgroupFolder is where the cgroups of a lab are, below each hierarchy.
func cgroupFolder(lab string) string { return "plinth-lab-" + lab }

// hierarchies are the folders of the host in which a machine has cgroups.
func hierarchies() []string {
	if unified() {
		return []string{cgroups}
	}
	var list []string
	for _, c := range controllers {
		if _, err := os.Stat(filepath.Join(cgroups, c, "cgroup.procs")); err == nil {
			list = append(list, filepath.Join(cgroups, c))
		}
	}
	return list
}

// enterCgroups moves this process into cgroups of the machine's own.
func (c Config) enterCgroups() error {
	for _, h := range hierarchies() {
		lab := filepath.Join(h, cgroupFolder(c.Lab))
		own := filepath.Join(lab, c.Name)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if filepath.Base(h) == "cpuset" {
			// A new cpuset is empty, and nothing can be moved into an empty one (cpusets(7)).
			for _, dir := range []string{lab, own} {
				if err := inherit(dir, "cpuset.cpus", "cpuset.mems"); err != nil {
					return err
				}
			}
		}
		if unified() {
			if err := errors.Join(delegate(h), delegate(lab)); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// inherit copies settings from the folder above.
func inherit(dir string, files ...string) error {
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f), data, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delegate lets the folders below have all controllers (cgroups(7), cgroup.subtree_control).
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(data)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("controller %s: %w", c, err)
		}
	}
	return nil
}

// mountCgroups shows the machine its own cgroups as if they were all there are.
func mountCgroups() error {
	if unified() {
		if err := unix.Mount("cgroup2", cgroups, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("cgroup2: %w", err)
		}
		// Who hands on controllers may have no process in the same folder (cgroups(7)).
		own := filepath.Join(cgroups, "init")
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
		return delegate(cgroups)
	}
	there := hierarchies()
	if err := unix.Mount("tmpfs", cgroups, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("%s: %w", cgroups, err)
	}
	for _, h := range there {
		options := filepath.Base(h)
		if options == "systemd" {
			options = "none,name=systemd"
		}
		if err := errors.Join(os.MkdirAll(h, 0o755), unix.Mount("cgroup", h, "cgroup", 0, options)); err != nil {
			return fmt.Errorf("%s: %w", h, err)
		}
	}
	return nil
}

// RemoveCgroups removes the cgroups of a lab whose machines are all off, as seen
// from the host. What is not there is fine.
func RemoveCgroups(lab string) error {
	var failed error
	for _, h := range hierarchies() {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h, cgroupFolder(lab)), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		failed = errors.Join(failed, err)
		for _, d := range slices.Backward(dirs) { // the deepest first
			if err := unix.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, &os.PathError{Op: "rmdir", Path: d, Err: err})
			}
		}
	}
	return failed
}
