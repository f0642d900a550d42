// Command versions runs Plinth's stories on several versions of Kubernetes, and writes
// into the README what came of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/test/components"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wrapper := flag.String("exec", "", "as of go test: what runs the tests as root")
	only := flag.String("only", "", "comma list of suites; empty: all. What else a row of the README says stays")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "versions [FLAGS] [VERSION...], as 1.34; without any those that each release is tested on\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	good, err := run(ctx, *wrapper, *only, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

// older are the versions that are tested in full besides the newest: the oldest in which
// Plinth works, and the one after it. Others are tested on demand.
var older = []string{"1.33", "1.34"}

// inFull returns the pins that are tested where nobody names others.
func inFull(pins []components.Pin) []string {
	return append(append([]string(nil), older...), pins[len(pins)-1].Minor)
}

func run(ctx context.Context, wrapper, only string, versions []string) (good bool, err error) {
	root, err := components.Root()
	if err != nil {
		return false, err
	}
	pins, err := components.Pins()
	if err != nil {
		return false, err
	}
	if len(versions) == 0 {
		versions = inFull(pins)
	}
	asked, err := pinsOf(pins, versions)
	if err != nil {
		return false, err
	}
	wanted, err := suitesOf(only)
	if err != nil {
		return false, err
	}
	g := goTest{root: root, wrapper: wrapper, logs: filepath.Join(root, "bin", "versions")}
	if err := os.MkdirAll(g.logs, 0o755); err != nil {
		return false, err
	}
	commit, err := components.Commit(ctx, root)
	if err != nil {
		return false, err
	}
	r := runner{commit: commit, suites: wanted, build: build, run: g.run, record: func(ran row) error {
		if err := components.StillAt(ctx, root, commit); err != nil {
			return fmt.Errorf("the README stays as it is: %w", err)
		}
		return record(filepath.Join(root, "README.md"), pins, ran)
	}}
	ran, good, err := r.all(ctx, asked)
	fmt.Printf("\n%s", table(ran))
	return good, err
}

// record writes a row into the README.
func record(file string, pins []components.Pin, ran row) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written, err := rewrite(string(text), pins, []row{ran})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(written), 0o644)
}

func pinsOf(pins []components.Pin, versions []string) ([]components.Pin, error) {
	var asked []components.Pin
	for _, v := range versions {
		pin, err := components.Choose(pins, v)
		if err != nil {
			return nil, err
		}
		asked = append(asked, pin)
	}
	return asked, nil
}

func suitesOf(only string) ([]suite, error) {
	if only == "" {
		return suites, nil
	}
	var wanted []suite
	for _, name := range strings.Split(only, ",") {
		s, ok := suiteNamed(name)
		if !ok {
			return nil, fmt.Errorf("-only=%s: %s is no suite, but %s", only, name, suiteNames())
		}
		wanted = append(wanted, s)
	}
	return wanted, nil
}

func today() string { return time.Now().Format(time.DateOnly) }
