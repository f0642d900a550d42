package container

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What runtimes keep from a container of what the kernel tells in /proc.
var (
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	masked   = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list"}
)

// enterRoot makes c.Root, filled with what the program is to see, the root of this thread.
func (c Container) enterRoot() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", c.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	for _, k := range []string{"proc", "sys"} {
		if err := errors.Join(os.Mkdir(c.at(k), 0o755), mountKernel(k, c.at(k))); err != nil {
			return err
		}
	}
	mounts := append([]Mount{{From: "/dev/null", To: "/dev/null", Write: true}}, c.Mounts...)
	for _, p := range readOnly {
		mounts = append(mounts, Mount{From: c.at(p), To: p})
	}
	for _, p := range masked {
		mounts = append(mounts, Mount{From: "/dev/null", To: p})
	}
	for _, m := range mounts {
		if err := c.mount(m); err != nil {
			return &os.PathError{Op: "mount", Path: m.To, Err: err}
		}
	}
	return errors.Join(seal(c.Root), pivot(c.Root))
}

func (c Container) at(path string) string { return filepath.Join(c.Root, path) }

// mountKernel mounts what the kernel tells of itself; sysfs as this network namespace sees it.
func mountKernel(name, at string) error {
	if name == "proc" {
		return unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	return unix.Mount("sysfs", at, "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
}

// mount shows a file or folder of the host in the container. What the kernel does not
// have in /proc is not there to be kept from anybody.
func (c Container) mount(m Mount) error {
	at := c.at(m.To)
	if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
		if strings.HasPrefix(m.To, "/proc/") {
			return nil
		}
		if err := place(m.From, at); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.From, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if m.Write {
		return nil
	}
	return seal(at)
}

// place makes what something can be mounted on: a folder for a folder, else a file.
func place(from, at string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644))
}

// seal makes a mount read-only, for this namespace of mounts alone.
func seal(at string) error {
	return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID, "")
}

// pivot makes a folder the root, and leaves nothing of the old one.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old one now lies on top of the new one
		return err
	}
	return errors.Join(unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/"))
}
