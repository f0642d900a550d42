package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/procfs"
	"plinth.dev/plinth/wait"
)

// Process is a program that runs in a lab. Its pid and start time together are
// never given to another process.
type Process struct {
	Name string // unique in the lab: "kube-apiserver", "agent-w1"
	Host string
	Pid  int
	Born uint64 // field 22 of /proc/<pid>/stat, in clock ticks since boot
	Log  string // file with all it wrote
}

// Alive reports whether exactly this process still runs.
func (p Process) Alive() bool {
	born, state, err := procfs.Stat(p.Pid)
	return err == nil && born == p.Born && (state != "Z" && state != "X" || threads(p.Pid) > 1)
}

// threads counts those of a process that are left. The first one may have ended before
// the others, which still hold what the process had open.
func threads(pid int) int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(tasks)
}

// Signal sends a signal, if exactly this process still runs; else it returns [os.ErrProcessDone].
func (p Process) Signal(s syscall.Signal) error {
	holder, err := os.FindProcess(p.Pid) // by a file descriptor: whoever has the pid later is another
	if err != nil {
		return err
	}
	defer holder.Release()
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return holder.Signal(s)
}

// Wait returns once the process is gone.
func (p Process) Wait(ctx context.Context) error {
	return wait.Until(ctx, 10*time.Millisecond, func(context.Context) error {
		if p.Alive() {
			return fmt.Errorf("%s (pid %d) still runs", p.Name, p.Pid)
		}
		return nil
	})
}

// start runs a program on a host of the lab and writes it down. The program is
// in a session of its own: it outlives the one that started it.
func (l *Lab) start(host, name string, env []string, command ...string) (Process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = l.Dir()
	return l.startWith(netns.Start, host, name, cmd)
}

// Run starts a program that is not the lab's own on one of its hosts, under a name that no
// other one has. Down ends it, if Stop did not.
func (l *Lab) Run(host, name string, command ...string) (Process, error) {
	return l.start(host, name, nil, command...)
}

// Stop sends a program that Run has started a signal, and waits for its end.
func (l *Lab) Stop(ctx context.Context, name string, s syscall.Signal) error {
	return l.stop(ctx, name, s)
}

// startWith is start for a command that is started in a way of its own.
func (l *Lab) startWith(start func(namespace string, cmd *exec.Cmd) error, host, name string, cmd *exec.Cmd) (Process, error) {
	log := l.logFile(name)
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := start(l.Namespace(host), cmd); err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", name, err)
	}
	go cmd.Wait() // reaps it; whoever needs to know asks Alive
	born, _, err := procfs.Stat(cmd.Process.Pid)
	if err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", name, err)
	}
	p := Process{Name: name, Host: host, Pid: cmd.Process.Pid, Born: born, Log: log}
	return p, l.remember(p)
}

// remember puts a process into the record, in the place of an older one of that name.
func (l *Lab) remember(p Process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Processes = slices.DeleteFunc(l.record.Processes, func(o Process) bool { return o.Name == p.Name })
	l.record.Processes = append(l.record.Processes, p)
	return l.record.save()
}

// Process returns the running process of that name. One that is supervised may be another one soon.
func (l *Lab) Process(name string) (Process, bool) {
	p, ok := l.recorded(name)
	if kept, supervised := l.supervised(name); supervised {
		p, ok = kept, true
	}
	return p, ok && p.Alive()
}

// recorded returns the process of that name that the record has.
func (l *Lab) recorded(name string) (Process, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.record.Processes {
		if p.Name == name {
			return p, true
		}
	}
	return Process{}, false
}

// stop sends a signal and waits until the process is gone; SIGKILL follows when
// ctx ends or after ten seconds. A process that does not run is fine. One that is
// supervised is not started again.
func (l *Lab) stop(ctx context.Context, name string, s syscall.Signal) error {
	if err := l.release(ctx, name); err != nil {
		return err
	}
	p, ok := l.Process(name)
	if !ok {
		return nil
	}
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	patient, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.Wait(patient); err != nil {
		p.Signal(syscall.SIGKILL)
		return fmt.Errorf("stopping %s with %s: %w", name, s, err)
	}
	return nil
}

// kill ends a process at once.
func (l *Lab) kill(ctx context.Context, name string) error { return l.stop(ctx, name, syscall.SIGKILL) }

// tail returns the last lines of a process's log, for error messages.
func (p Process) tail(lines int) string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
