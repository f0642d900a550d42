package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"plinth.dev/plinth/test/components"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wrapper := flag.String("exec", "", "as of go test: what runs benchmarks as root")
	ages := flag.Bool("age", false, "measure nothing: print which of the parts are older than the code that they are about")
	again := flag.Bool("render", false, "measure nothing: write the tables of what was measured again")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "evidence [FLAGS] [PART...]: all parts, or some of %s\n", partNames())
		flag.PrintDefaults()
	}
	flag.Parse()
	os.Unsetenv(components.KubernetesVariable) // figures are of the newest, where a benchmark is not told of another
	if err := run(ctx, *wrapper, !*ages && !*again, !*ages, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
}

// run measures parts and writes the tables of all where it is to, and prints the ages of all; where it does neither, of
// the parts that are asked for.
func run(ctx context.Context, wrapper string, measuring, rendering bool, names []string) error {
	root, err := components.Root()
	if err != nil {
		return err
	}
	asked, err := chosen(names)
	if err != nil {
		return err
	}
	var failed []error
	if measuring {
		failed = append(failed, measureAll(ctx, root, wrapper, asked))
	}
	if rendering {
		failed = append(failed, renderAll(root))
	}
	told := parts
	if !measuring && !rendering {
		told = asked
	}
	return errors.Join(append(failed, printAges(ctx, os.Stdout, root, told))...)
}

// measureAll measures one part after the other: one that fails keeps its old record, and no other from being measured.
func measureAll(ctx context.Context, root, wrapper string, asked []part) error {
	commit, err := components.Commit(ctx, root)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range asked {
		if err := measure(ctx, root, wrapper, commit, p); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// measure runs the benchmarks of a part, and writes its record when all of them have ended well.
func measure(ctx context.Context, root, wrapper, commit string, p part) error {
	of, err := here(commit)
	if err != nil {
		return err
	}
	var printed bytes.Buffer
	for _, arguments := range p.runs {
		cmd := exec.CommandContext(ctx, "go", goTest(wrapper, arguments)...)
		cmd.Dir, cmd.Stderr, cmd.Stdout = root, os.Stderr, io.MultiWriter(os.Stdout, &printed)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
	}
	if err := components.StillAt(ctx, root, commit); err != nil {
		return err
	}
	return write(filepath.Join(root, p.record()), of, printed.Bytes())
}

// goTest is the command line of benchmarks; -C has to come first.
func goTest(wrapper string, arguments []string) []string {
	all := []string{"test"}
	if arguments[0] == "-C" {
		all, arguments = append(all, arguments[:2]...), arguments[2:]
	}
	return slices.Concat(all, []string{"-exec=" + wrapper, "-run=^$", "-count=1"}, arguments)
}
