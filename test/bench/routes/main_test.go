package routes

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// agentVariable is the agent's program, once in the namespace.
const agentVariable = "PLINTH_BENCH_AGENT"

// TestMain runs the benchmarks again in a network namespace that is gone when they end.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" || os.Getenv(agentVariable) != "" {
		os.Exit(m.Run())
	}
	os.Exit(outside())
}

func outside() (code int) {
	folder, err := os.MkdirTemp("", "plinth-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	agent := filepath.Join(folder, "plinth-agent")
	build := exec.Command("go", "build", "-o", agent, "./cmd/node-agent")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the agent: %v\n%s", err, out)
		return 1
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), agentVariable+"="+agent)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := again.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "in a network namespace:", err)
		return 1
	}
	return 0
}
