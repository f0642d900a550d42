package vips

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/components"
)

// programs is the folder of the programs that are measured, once in the namespaces.
const programs = "PLINTH_BENCH_PROGRAMS"

var (
	rounds = flag.Int("rounds", 5, "how often the contenders take turns; the median counts")
	most   = flag.Int("most", 10_000, "the largest number of Services that are present")
	only   = flag.String("only", "", "names of contenders, comma separated: plinth, metallb, floor, before; else all")
	older  = flag.String("before", "", "file of an older controller manager, which is measured beside the others as \"before\"")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // there is nothing to build for
	}
	if os.Getenv(programs) == "" {
		os.Exit(outside())
	}
	for _, c := range [][]string{
		{"mount", "--make-rprivate", "/"},
		{"mount", "-t", "proc", "proc", "/proc"},
		{"mount", "-t", "tmpfs", "tmpfs", "/run"},
		{"ip", "link", "set", "lo", "up"},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v: %s\n", c, err, out)
			os.Exit(1)
		}
	}
	os.Exit(apiserver.Main(m))
}

// outside builds what is measured, while there is a network, and runs this binary
// again in namespaces of its own: they are the machine.
func outside() int {
	folder, err := os.MkdirTemp("", "plinth-bench-")
	if err == nil {
		defer os.RemoveAll(folder)
		err = build(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), programs+"="+folder)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "these benchmarks need root and namespaces:", err)
		return 1
	}
	return 0
}

func build(folder string) error {
	if err := components.Own(folder); err != nil {
		return err
	}
	if _, err := components.File("etcd"); err != nil {
		return err
	}
	root, err := components.Root()
	if err != nil {
		return err
	}
	if err := goBuild(root, folder, "plinth-agent", "./cmd/node-agent"); err != nil {
		return err
	}
	if err := goBuild(filepath.Join(root, "test"), folder, "plinth-floor", "./bench/vips/floor"); err != nil {
		return err
	}
	if err := linkBefore(folder); err != nil {
		return err
	}
	if !wanted("metallb") {
		return nil
	}
	return metallb.Build(folder)
}

// linkBefore gives the older controller manager a name of its own, by which its log is found.
// It is no copy: how a file was written decides how much of it a process has in memory.
func linkBefore(folder string) error {
	if *older == "" {
		return nil
	}
	if _, err := os.Stat(*older); err != nil {
		return err
	}
	file, err := filepath.Abs(*older)
	if err != nil {
		return err
	}
	return os.Symlink(file, filepath.Join(folder, "plinth-before"))
}

// wanted reports whether a contender takes part.
func wanted(name string) bool {
	if name == "before" && *older == "" {
		return false
	}
	return *only == "" || slices.Contains(strings.Split(*only, ","), name)
}

func goBuild(source, folder, program, pkg string, flags ...string) error {
	return components.GoBuild(context.Background(), source, slices.Concat(components.Shipped, flags, []string{"-o", filepath.Join(folder, program), pkg})...)
}
func program(name string) string { return filepath.Join(os.Getenv(programs), name) }
