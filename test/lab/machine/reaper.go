package machine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reaper is what the first process owes all others: it waits for those whose
// parents are gone, the shims of containerd among them, and so for its own too.
type reaper struct {
	mu   sync.Mutex
	ends map[int]chan syscall.WaitStatus // of processes that run waits for
}

func newReaper() *reaper {
	return &reaper{ends: map[int]chan syscall.WaitStatus{}}
}

func (r *reaper) reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			r.note(pid, status)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

func (r *reaper) note(pid int, status syscall.WaitStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end, ok := r.ends[pid]; ok {
		end <- status
		delete(r.ends, pid)
	}
}

// run runs a program to its end; its output goes to this process's own.
func (r *reaper) run(ctx context.Context, file string, args ...string) error {
	r.mu.Lock() // until it is known whom to tell of its end
	p, err := os.StartProcess(file, append([]string{file}, args...), &os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		r.mu.Unlock()
		return err
	}
	end := make(chan syscall.WaitStatus, 1)
	r.ends[p.Pid] = end
	r.mu.Unlock()
	select {
	case status := <-end:
		if status.ExitStatus() != 0 {
			return fmt.Errorf("%s ended with %d (signal %d)", file, status.ExitStatus(), status.Signal())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep runs a program again whenever it ends, as systemd would.
func (r *reaper) keep(ctx context.Context, name, file string, args ...string) {
	for ctx.Err() == nil {
		slog.Info("program starts", "program", name)
		err := r.run(ctx, file, args...)
		slog.Info("program ended", "program", name, "err", err)
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
	}
}
