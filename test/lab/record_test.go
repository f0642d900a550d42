package lab

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"plinth.dev/plinth/test/procfs"
)

func TestAProcessWithARecycledPidIsNeverSignalled(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	born, _, err := procfs.Stat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	recycled := Process{Name: "older", Pid: cmd.Process.Pid, Born: born - 1}
	if recycled.Alive() {
		t.Error("a process born earlier passes for the one that has its pid now")
	}
	if err := recycled.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signalling it gave %v, want %v", err, os.ErrProcessDone)
	}
	if same := (Process{Pid: cmd.Process.Pid, Born: born}); !same.Alive() {
		t.Error("the process itself was killed or is not recognised")
	}
}

// TestAProcessThatEndsMeanwhileIsDone: whoever ends one sends it two signals, and the first may end it at once.
func TestAProcessThatEndsMeanwhileIsDone(t *testing.T) {
	for range 300 {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		born, _, err := procfs.Stat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		reaped := make(chan error, 1)
		go func() { reaped <- cmd.Wait() }()
		p := Process{Name: "sleep", Pid: cmd.Process.Pid, Born: born}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = p.Signal(syscall.SIGCONT)
		}
		if !errors.Is(err, os.ErrProcessDone) {
			t.Fatalf("signalling one that ends gave %v, want %v", err, os.ErrProcessDone)
		}
		<-reaped
	}
}

func TestNoPrefixOfALabBeginsAnothersName(t *testing.T) {
	for _, pair := range [][2]string{{DefaultName, "e2e"}, {"a", "a-b"}, {"a", "ab"}} {
		if p, other := prefix(pair[0]), prefix(pair[1])+"w1"; len(other) >= len(p) && other[:len(p)] == p {
			t.Errorf("namespace %s of lab %s would be taken for one of lab %s", other, pair[1], pair[0])
		}
	}
}
