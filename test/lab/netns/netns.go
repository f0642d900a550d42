// Package netns makes, enters and removes named network namespaces.
//
// A namespace is named as `ip netns` names it, so people can look into all of
// them with `ip netns exec`.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const folder = "/run/netns"

// Path is the file that holds the namespace open.
func Path(name string) string { return filepath.Join(folder, name) }

// Exists reports whether there is a namespace of that name.
func Exists(name string) bool {
	_, err := os.Stat(Path(name))
	return err == nil
}

// Names returns the names of all namespaces, sorted.
func Names() ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// Add makes a namespace and brings up its loopback device.
func Add(name string) error {
	if err := run("ip", "netns", "add", name); err != nil {
		return err
	}
	return run("ip", "-n", name, "link", "set", "lo", "up")
}

// Delete removes a namespace; one that does not exist is fine. Sockets and
// processes inside keep it alive without its name.
func Delete(name string) error {
	if !Exists(name) {
		return nil
	}
	return run("ip", "netns", "delete", name)
}

// Do runs f on a thread of its own inside the namespace. Goroutines that f
// starts are outside again, but sockets that f opened stay inside.
func Do(name string, f func() error) error {
	failed := make(chan error, 1)
	onThread(func() {
		if err := enter(name); err != nil {
			failed <- err
			return
		}
		failed <- f()
	})
	return <-failed
}

// onThread runs f on a thread that ends with it, so no other goroutine can ever
// find itself in a namespace that f has entered.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread never ends, and stands for the whole process in /proc.
			defer runtime.UnlockOSThread()
			done := make(chan struct{})
			onThread(func() { defer close(done); f() })
			<-done
			return
		}
		f()
	}()
}

func enter(name string) error {
	file, err := os.Open(Path(name))
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", name, err)
	}
	return nil
}

// Start starts a command inside the namespace. Unlike `ip netns exec` it leaves
// the mounts alone, so what the command adds to /run/netns is seen by all.
func Start(name string, cmd *exec.Cmd) error {
	return Do(name, cmd.Start)
}

// Listen opens a TCP listener inside the namespace.
func Listen(name, address string) (l net.Listener, err error) {
	err = Do(name, func() error {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket inside the namespace.
func ListenPacket(name, address string) (c net.PacketConn, err error) {
	err = Do(name, func() error {
		c, err = net.ListenPacket("udp", address)
		return err
	})
	return c, err
}

// Pids returns the processes that run inside the namespace.
func Pids(name string) ([]int, error) {
	var want unix.Stat_t
	if err := unix.Stat(Path(name), &want); err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		var have unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &have) == nil && have.Ino == want.Ino && have.Dev == want.Dev {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// IP runs lines of `ip -batch` inside the namespace; an empty name is the
// namespace of this process. Empty lines are skipped.
func IP(name string, lines ...string) error {
	args := []string{"-batch", "-"}
	if name != "" {
		args = append([]string{"-n", name}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip in namespace %q: %w: %s\n%s", name, err, strings.TrimSpace(string(out)), strings.Join(lines, "\n"))
	}
	return nil
}

// Sysctl sets kernel settings of the namespace, each as "net/ipv4/ip_forward=1".
func Sysctl(name string, settings ...string) error {
	return Do(name, func() error {
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0); err != nil {
				return fmt.Errorf("network namespace %s: %w", name, err)
			}
		}
		return nil
	})
}

// Output runs a command inside the namespace and returns what it wrote to its
// standard output.
func Output(ctx context.Context, name string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := Do(name, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s in %s: %w: %s", strings.Join(command, " "), name, err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

func run(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
