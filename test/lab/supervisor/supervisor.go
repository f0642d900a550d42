// Package supervisor keeps a program of the lab running, as a kubelet keeps a container whose pod has the restart policy
// Always: one that has ended, for whatever reason, is started again. Whoever wants it to stay dead ends its supervisor
// first, which leaves the program alone.
//
// A supervisor is a process of its own, since a lab outlives the one that made it. It runs in the network namespace of
// the host whose program it keeps: what takes the power from that host stops it, and what removes the lab ends it.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/container"
	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/procfs"
)

// Program is what is kept running.
type Program struct {
	Name      string
	Namespace string   // network namespace
	Command   []string // the program first
	Env       []string
	Dir       string
	Container *container.Container // what it runs in; nil: in none
	Log       string               // file that all it writes is appended to
	State     string               // file that holds a State
}

// State is which process the program is.
type State struct {
	Supervisor int    // process ID
	Pid        int    // of the program that was started last
	Born       uint64 // see procfs.Stat
	Starts     int
}

// A program is started again a second after it has ended. Each time the pause is twice as long, up to half a minute,
// until it has run for a minute. A kubelet begins with ten seconds, goes up to five minutes and takes ten minutes for
// well: no story waits for that.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	ranWell    = time.Minute
)

// pauseAfter is the pause before a program is started again that has run for so long; last is the one before it started,
// zero the first time.
func pauseAfter(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= ranWell {
		return firstPause
	}
	return min(2*last, mostPause)
}

// Run keeps the program running until ctx ends, and leaves it alone then. It returns an error if the program cannot be
// started the first time.
func Run(ctx context.Context, p Program) error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	var pause time.Duration
	for starts := 1; ctx.Err() == nil; starts++ {
		begun := time.Now()
		ended, err := p.start(starts, log)
		var how string
		switch {
		case err == nil:
			select {
			case <-ctx.Done():
				return nil
			case how = <-ended:
			}
		case starts == 1:
			return err
		default:
			how = err.Error()
		}
		pause = pauseAfter(pause, time.Since(begun))
		fmt.Fprintf(log, "supervisor: %s has ended (%s), and is started again in %s\n", p.Name, how, pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// start starts the program, writes down which process it is, and returns what tells how it ended.
func (p Program) start(starts int, log *os.File) (ended <-chan string, err error) {
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.Env, p.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives its supervisor
	start := netns.Start
	if p.Container != nil {
		start = p.Container.Start
	}
	if err := start(p.Namespace, cmd); err != nil {
		return nil, err
	}
	how := make(chan string, 1)
	defer func() {
		go func() {
			_ = cmd.Wait() // its state says more
			how <- cmd.ProcessState.String()
		}()
	}()
	born, _, err := procfs.Stat(cmd.Process.Pid) // it is not reaped yet
	if err == nil {
		err = State{Supervisor: os.Getpid(), Pid: cmd.Process.Pid, Born: born, Starts: starts}.write(p.State)
	}
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill()) // nobody would find it
	}
	return how, nil
}

func (s State) write(file string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Read reads a file that holds a State.
func Read(file string) (s State, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}
