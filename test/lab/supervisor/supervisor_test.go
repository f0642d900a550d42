package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/procfs"
	"plinth.dev/plinth/wait"
)

func TestAProgramComesBackUntilItsSupervisorEnds(t *testing.T) {
	const space = "plt-supervisor"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netns.Delete(space)) // of a run that was killed
	must(netns.Add(space))
	t.Cleanup(func() { must(netns.Delete(space)) })
	folder := t.TempDir()
	p := Program{
		Name: "sleeper", Namespace: space, Command: []string{"/bin/sh", "-c", "echo $WORD; exec sleep 600"}, Env: []string{"WORD=begun"}, Dir: "/",
		Log: filepath.Join(folder, "log"), State: filepath.Join(folder, "state"),
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, p) }()

	first := started(t, p, 1)
	must(syscall.Kill(first.Pid, syscall.SIGKILL))
	second := started(t, p, 2)
	log, err := os.ReadFile(p.Log)
	must(err)
	if text := string(log); strings.Count(text, "begun\n") != 2 || !strings.Contains(text, "supervisor: sleeper has ended (signal: killed), and is started again in 1s\n") {
		t.Errorf("the log is\n%s", log)
	}
	end()
	must(<-ended)
	if born, state, err := procfs.Stat(second.Pid); err != nil || born != second.Born || state == "Z" {
		t.Errorf("the program did not outlive its supervisor: %s, %v", state, err)
	}
	must(syscall.Kill(second.Pid, syscall.SIGKILL))
}

// started waits until a program has been started so often and runs, as its log says.
func started(t *testing.T, p Program, times int) (s State) {
	t.Helper()
	wait.True(t, 10*time.Second, 10*time.Millisecond, fmt.Sprintf("it is started %d times", times), func() (bool, string) {
		var err error
		s, err = Read(p.State)
		log, _ := os.ReadFile(p.Log)
		return err == nil && s.Starts == times && strings.Count(string(log), "begun\n") == times, fmt.Sprintf("%+v (%v), log:\n%s", s, err, log)
	})
	return s
}

func TestAProgramThatCannotBeStartedIsAnError(t *testing.T) {
	folder := t.TempDir()
	p := Program{Name: "none", Namespace: "plt-none", Command: []string{"/none"}, Log: filepath.Join(folder, "log"), State: filepath.Join(folder, "state")}
	if err := Run(t.Context(), p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that it is not there", err)
	}
}

func TestAProgramThatEndsAtOnceIsStartedLessAndLessOften(t *testing.T) {
	var pause time.Duration
	for i, c := range []struct{ ran, want time.Duration }{
		{0, time.Second}, {0, 2 * time.Second}, {0, 4 * time.Second}, {30 * time.Second, 8 * time.Second}, {0, 16 * time.Second},
		{0, 30 * time.Second}, {0, 30 * time.Second}, {time.Minute, time.Second}, {0, 2 * time.Second},
	} {
		if pause = pauseAfter(pause, c.ran); pause != c.want {
			t.Errorf("pause %d is %s, want %s", i+1, pause, c.want)
		}
	}
}
