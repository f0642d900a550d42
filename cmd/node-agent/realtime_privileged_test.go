//go:build privileged

package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const asNobody = "PLINTH_TEST_NOBODY"

func TestEveryThreadGoesBeforeOrdinaryProcesses(t *testing.T) {
	if os.Getenv(asNobody) != "" {
		if err := realTime(); err == nil || !strings.Contains(err.Error(), "SYS_NICE") {
			t.Errorf("nobody may do this, and the error is %v", err)
		}
		return
	}
	refused := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	refused.Env = append(os.Environ(), asNobody+"=1")
	refused.Dir = "/"
	refused.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := refused.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	if err := realTime(); err != nil {
		t.Fatal(err)
	}
	later := make(chan error, 8)
	for range cap(later) { // threads that the process starts afterwards
		go func() {
			runtime.LockOSThread()
			_, err := unix.Poll(nil, 50) // held in the kernel, each needs a thread of its own
			later <- err
		}()
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if a, err := unix.SchedGetAttr(id, 0); err == nil && (a.Policy != unix.SCHED_RR || a.Priority != realTimePriority) {
			t.Errorf("thread %d of %d has policy %d and priority %d", id, len(threads), a.Policy, a.Priority)
		}
	}
	for range cap(later) {
		<-later
	}
}
