package netns

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inside tells a process that it is in the namespace.
const inside = "PLINTH_TEST_NETNS"

// Main runs the tests again in a new network namespace (network_namespaces(7)), there after whatever is to be set up first. It is
// called by TestMain, and ends the process.
func Main(m *testing.M, setUp ...func() error) {
	if os.Getenv(inside) == "" {
		again()
	}
	for _, f := range setUp {
		if err := f(); err != nil {
			fail(err)
		}
	}
	os.Exit(m.Run())
}

// again runs this test binary in the namespace, and ends as it does.
func again() {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Run(); err != nil {
		fail(err)
	}
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "in a network namespace:", err)
	os.Exit(1)
}
