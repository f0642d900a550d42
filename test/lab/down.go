package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/machine"
	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/procfs"
	"plinth.dev/plinth/wait"
)

// Down removes every trace of the lab.
func (l *Lab) Down(ctx context.Context) error { return Down(ctx, l.record.Name) }

// Down removes every trace of the lab of that name, whoever made it and however
// far that got. A lab that does not exist is fine.
func Down(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	r, err := readRecord(name)
	if errors.Is(err, os.ErrNotExist) {
		r, err = nil, nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := killAll(ctx, name, r); err != nil {
		return err
	}
	if err := deleteNamespaces(ctx, name); err != nil {
		return err
	}
	if r != nil {
		if err := removeHostLink(hostLink(r.Slot)); err != nil {
			return err
		}
		// A cgroup is busy until the kernel is done with what ended in it.
		gone := func(context.Context) error { return machine.RemoveCgroups(name) }
		if err := wait.Until(ctx, 50*time.Millisecond, gone); err != nil {
			return err
		}
		if err := errors.Join(removePlaces(name, r.Places), removeDir(r.Dir), removeCrashFolders(r.Processes)); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(runDir(name)), removeRunFolder())
}

// killAll ends the recorded processes, and whatever else runs in a namespace of
// the lab. It kills again until none is left, as one may have forked meanwhile.
//
// A process that its maker had no time to record has its crash folder removed here.
func killAll(ctx context.Context, name string, r *record) error {
	unrecorded := map[string]bool{} // crash folders
	defer func() {
		for folder := range unrecorded {
			os.RemoveAll(folder)
		}
	}()
	return wait.Until(ctx, 20*time.Millisecond, func(context.Context) error {
		var left []string
		if r != nil {
			for _, p := range r.Processes {
				if p.Signal(syscall.SIGKILL) == nil {
					left = append(left, p.Name)
				}
			}
		}
		spaces, err := namespacesOf(name)
		if err != nil {
			return err
		}
		for _, s := range spaces {
			pids, _ := netns.Pids(s) // a namespace may go away meanwhile: nothing runs in it then
			for _, pid := range pids {
				if pid == os.Getpid() {
					continue // a thread of ours that still waits for its goroutine to end
				}
				if daemon, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
					unrecorded[crashFolder(strings.TrimSpace(string(daemon)), pid)] = true
				}
				if syscall.Kill(pid, syscall.SIGKILL) == nil && running(pid) {
					left = append(left, fmt.Sprintf("pid %d in %s", pid, s))
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("still running: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

func running(pid int) bool {
	_, state, err := procfs.Stat(pid)
	return err == nil && state != "Z" && state != "X"
}

func namespacesOf(name string) ([]string, error) {
	all, err := netns.Names()
	var ours []string
	for _, n := range all {
		if strings.HasPrefix(n, prefix(name)) {
			ours = append(ours, n)
		}
	}
	return ours, err
}

func deleteNamespaces(ctx context.Context, name string) error {
	spaces, err := namespacesOf(name)
	for _, s := range spaces {
		err = errors.Join(err, netns.Delete(s))
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

// removeHostLink removes the host's end of the link, which the kernel does by
// itself a little after the namespace of the other end is gone.
func removeHostLink(device string) error {
	if _, err := os.Stat("/sys/class/net/" + device); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := netns.IP("", "link delete "+device); err != nil {
		if _, gone := os.Stat("/sys/class/net/" + device); errors.Is(gone, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return nil
}

// crashFolders is where every daemon of FRR makes a folder <daemon>.<pid> for what
// it would say if it crashed, whatever it is told about other folders.
const crashFolders = "/var/tmp/frr"

func crashFolder(daemon string, pid int) string {
	return fmt.Sprintf("%s/%s.%d", crashFolders, daemon, pid)
}

func removeCrashFolders(processes []Process) error {
	var err error
	for _, p := range processes {
		daemon, _, _ := strings.Cut(p.Name, "-")
		err = errors.Join(err, os.RemoveAll(crashFolder(daemon, p.Pid)))
	}
	os.Remove(crashFolders) // fails while an FRR of somebody else's has one in it
	return err
}

// removeDir removes what a lab has put into its folder, and the folder if
// nothing else is in it.
func removeDir(dir string) error {
	var err error
	for _, name := range []string{"bin", "logs", "pki", "etcd", "routers", "agents", "disks", "volumes", "images", "operator", "kubeconfig"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err != nil {
		return err
	}
	// Both fail while something of somebody else's is in them.
	os.Remove(dir)
	os.Remove(otherLabs)
	return nil
}
