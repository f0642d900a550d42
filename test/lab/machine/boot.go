package machine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter moves this process, which is alone in new namespaces, into the machine's
// cgroups and starts it once more there. It returns only when that fails.
func Enter(c Config, self string, args []string) error {
	if err := c.enterCgroups(); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	// The new namespace begins at the cgroups that this process is in by now.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	return syscall.Exec(self, args, os.Environ())
}

// Boot makes the machine and runs what is on it until ctx ends.
func Boot(ctx context.Context, c Config) error {
	steps := []struct {
		name string
		do   func() error
	}{
		{"mounts", c.mount}, {"host name", func() error { return unix.Sethostname([]byte(c.Name)) }},
		{"configuration", c.configure}, {"network", c.network},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return c.serve(ctx)
}

// folders of the machine that are on its disk, and outlive its power.
var folders = []string{
	"/etc/cni", "/etc/containerd", "/etc/kubernetes", "/usr/libexec/kubernetes", "/opt",
	"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/plinth", "/var/log/containers", "/var/log/pods",
}

// mount lays the machine's own files over those of the host.
func (c Config) mount() error {
	// First of all nothing that happens here may reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := mountCgroups(); err != nil {
		return err
	}
	for _, dir := range folders {
		own := filepath.Join(c.Disk, dir)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for name, text := range c.identity() {
		own := filepath.Join(c.Disk, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o755), os.WriteFile(own, []byte(text), 0o644)); err != nil {
			return err
		}
		if err := unix.Mount(own, name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := c.mountFirmware(); err != nil {
		return fmt.Errorf("firmware: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	// The kubelet wants volumes that are mounted in a container to be seen outside.
	return errors.Join(os.MkdirAll("/run/lock", 0o755), os.MkdirAll("/run/netns", 0o755), unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}

// MakePlaces makes the folders and files of the host that a machine mounts its own
// over, where there are none, and returns what it made, parents first. They stay
// empty: who removes the machine removes them.
func MakePlaces() (made []string, err error) {
	for _, dir := range folders {
		for missing := range missingParents(dir) {
			if err := os.Mkdir(missing, 0o755); err != nil {
				return made, err
			}
			made = append(made, missing)
		}
	}
	for name := range (Config{}).identity() {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				return made, err
			}
			made = append(made, name)
		}
	}
	return made, nil
}

// missingParents yields a folder and those above it that are not there, from the top.
func missingParents(dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var missing []string
		for d := dir; d != "/"; d = filepath.Dir(d) {
			if _, err := os.Stat(d); err == nil {
				break
			}
			missing = append(missing, d)
		}
		for _, d := range slices.Backward(missing) {
			if !yield(d) {
				return
			}
		}
	}
}

// identity is what tells a machine from others, by file.
func (c Config) identity() map[string]string {
	return map[string]string{
		"/etc/hostname":    c.Name + "\n",
		"/etc/machine-id":  c.MachineID + "\n",
		"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + c.Name + "\n",
		"/etc/resolv.conf": "# a lab has no DNS but the cluster's own\nnameserver 127.0.0.1\n",
	}
}

// serve starts all programs in their order, and keeps them running.
func (c Config) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newReaper()
	go r.reap(ctx)

	go r.keep(ctx, "containerd", c.Programs["containerd"], "--config="+containerdFile)
	if err := c.importImages(ctx, r); err != nil {
		return err
	}
	go r.keep(ctx, "kubelet", c.Programs["kubelet"], c.kubeletFlags()...)
	go r.keep(ctx, "lab-csi", c.Programs["lab-csi"], c.Name, c.Volumes)
	go r.keep(ctx, "kube-proxy", c.Programs["kube-proxy"], c.proxyFlags()...)
	slog.Info("machine runs", "machine", c.Name)
	<-ctx.Done()
	return nil
}
