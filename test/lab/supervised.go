package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/supervisor"
)

// supervise runs a program on a host of the lab, and has it started again whenever it ends, until it is stopped. An
// older one of that name is left alone, and nobody starts it again.
func (l *Lab) supervise(ctx context.Context, host string, p supervisor.Program) error {
	if err := l.release(ctx, p.Name); err != nil {
		return err
	}
	p.Namespace, p.Log, p.State = l.Namespace(host), l.logFile(p.Name), l.stateFile(p.Name)
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := p.State + ".program"
	err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.RemoveAll(p.State), os.WriteFile(file, text, 0o600))
	if err != nil {
		return err
	}
	keeper, err := l.start(host, supervisorName(p.Name), nil, filepath.Join(l.binaries.plinth, "lab-supervisor"), file)
	if err != nil {
		return err
	}
	return Within(ctx, 10*time.Second, func(context.Context) error {
		s, err := supervisor.Read(p.State)
		switch {
		case err == nil && s.Supervisor == keeper.Pid:
			return nil
		case !keeper.Alive():
			return fmt.Errorf("%s cannot be started: %s", p.Name, keeper.tail(3))
		}
		return fmt.Errorf("%s is not started yet (%w)", p.Name, err)
	})
}

// release ends the supervisor of a program, if it has one. It first writes down what it has started, which is left alone.
func (l *Lab) release(ctx context.Context, name string) error {
	keeper, ok := l.recorded(supervisorName(name))
	if !ok || !keeper.Alive() {
		return nil
	}
	// One on a machine without power stands still, and hears nothing before it goes on.
	if err := errors.Join(keeper.Signal(syscall.SIGTERM), keeper.Signal(syscall.SIGCONT)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the supervisor of %s: %w", name, err)
	}
	return Within(ctx, 10*time.Second, func(context.Context) error {
		if keeper.Alive() {
			return fmt.Errorf("the supervisor of %s (pid %d) still runs", name, keeper.Pid)
		}
		return nil
	})
}

// supervised returns the process that a supervisor of that name has started last.
func (l *Lab) supervised(name string) (Process, bool) {
	s, err := supervisor.Read(l.stateFile(name))
	if err != nil {
		return Process{}, false
	}
	keeper, ok := l.recorded(supervisorName(name))
	return Process{Name: name, Host: keeper.Host, Pid: s.Pid, Born: s.Born, Log: l.logFile(name)}, ok
}

func supervisorName(name string) string { return "supervisor-" + name }

func (l *Lab) stateFile(name string) string {
	return filepath.Join(runDir(l.record.Name), "supervised", name)
}

func (l *Lab) logFile(name string) string { return filepath.Join(l.Dir(), "logs", name+".log") }
