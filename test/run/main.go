// Command run runs the tests by parts: it builds all of them first, goes on after a part that failed, and ends with
// what failed and why, how to run exactly that again, and how many passed.
//
//	go run -C test ./run -root .. gate          # what a change must pass
//	go run -C test ./run -root .. rest          # what depends on the clock, takes long or draws what happens
//	go run -C test ./run -root .. lab traffic   # these parts
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/still"
)

// times is how long each test took when the gate was run on a quiet machine; -record writes it.
//
//go:embed times.tsv
var times string

var (
	root    = flag.String("root", "..", "the source tree")
	wrapper = flag.String("exec", "", "what stands before a command that needs root")
	record  = flag.Bool("record", false, "write how long each test took as what is usual")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := runTests(ctx, strings.Join(flag.Args(), " "))
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case len(r.failed()) > 0 || len(r.outcomes) == 0:
		os.Exit(1)
	case len(r.notJudged()) > 0:
		os.Exit(notJudged)
	}
}

// notJudged is the exit code where nothing failed, but programs lacked a processor in a test that failed, twice: this
// machine cannot tell (EX_TEMPFAIL of sysexits.h).
const notJudged = 75

// watched are the programs that stories with a clock depend on, as the kernel calls them.
var watched = []string{"plinth-agent", "plinth-cloud-co", "bgpd", "bfdd", "zebra", "bird", "kube-proxy", "lab-kubelet", "lab-machine", "kube-apiserver", "etcd"}

// runTests runs parts and reports on them.
func runTests(ctx context.Context, names string) (r run, err error) {
	parts, unknown := named(names)
	if len(unknown) > 0 || len(parts) == 0 {
		return r, fmt.Errorf("there is no part %q; there are: %s", strings.Join(unknown, " "), partNames())
	}
	top, err := filepath.Abs(*root)
	if err != nil {
		return r, err
	}
	unlock, err := lock()
	if err != nil {
		return r, err
	}
	defer unlock()
	folder := filepath.Join(top, "bin", "tests")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return r, err
	}
	var programs []string // each thread of theirs is looked at: what nobody asks is not to cost
	if slices.ContainsFunc(parts, func(p part) bool { return p.clock }) {
		programs = watched
	}
	watch := still.Begin(ctx, programs...)
	begun := time.Now()
	worked, all := still.Busy()

	x := executor{root: top, folder: folder, wrapper: strings.Fields(*wrapper), still: watch, progress: say}
	if x.reader, err = test2json(ctx); err != nil {
		return r, err
	}
	if slices.ContainsFunc(parts, func(p part) bool { return !p.plain }) {
		if err := x.sweep(ctx); err != nil {
			return r, err
		}
	}
	title("building the tests")
	b := &builder{root: top, folder: folder, built: map[string]string{}}
	r = run{cpus: runtime.NumCPU(), usual: usualTimes(times)}
	jobs := map[string][]job{}
	for _, p := range parts {
		if len(p.command) > 0 {
			jobs[p.name] = []job{{part: p, usual: time.Duration(p.usual) * time.Minute}}
		}
		for _, s := range p.suites {
			programs, err := b.programs(ctx, s, r.usual)
			if err != nil {
				return r, err
			}
			for _, one := range programs {
				jobs[p.name] = append(jobs[p.name], job{p, one, one.usual(r.usual)})
			}
		}
	}
	r.parts = []taken{{part{name: "building", usual: 2}, time.Since(begun)}}
	for _, stage := range stages(parts) {
		title(stage.name())
		var now []job
		for _, p := range stage {
			now = append(now, jobs[p.name]...)
		}
		outcomes, took := x.run(ctx, now, stage.places(r.cpus))
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		r.outcomes = append(r.outcomes, outcomes...)
		for _, p := range stage {
			r.parts = append(r.parts, taken{p, took[p.name]})
		}
	}
	r.outcomes, r.before = x.judgeAgain(ctx, r.outcomes)
	r.took = time.Since(begun)
	now, allNow := still.Busy()
	r.busy = float64(now-worked) / float64(max(1, allNow-all))
	r.times, r.stood, r.longest = watch.Stood(begun, time.Now())
	if err := r.all(folder); err != nil {
		return r, err
	}
	good := len(r.failed())+len(r.notJudged()) == 0 && len(r.outcomes) > 0
	if good && *record {
		err = errors.Join(err, copyFile(filepath.Join(folder, "times.tsv"), filepath.Join(top, "test", "run", "times.tsv")))
	}
	if good && names == "gate" {
		err = errors.Join(err, green(ctx, top))
	}
	fmt.Println()
	r.report(os.Stdout)
	return r, err
}

// green notes that the gate passed on the tree of HEAD, where that is what was tested.
func green(ctx context.Context, top string) error {
	if changed, err := components.Git(ctx, top, "status", "--porcelain"); err != nil || changed != "" {
		return nil // no clone of git's, or one with changes: it has no tree to note
	}
	tree, err := components.Git(ctx, top, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	f, err := create(filepath.Join(top, ".cache", "gate", tree))
	if err != nil {
		return err
	}
	return f.Close()
}

// lock keeps two runs on one machine apart: they would take down each other's labs. It waits for the other one.
func lock() (unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	f, err := create(filepath.Join(cache, "plinth", "tests.lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		say("another run of tests is on this machine: waiting for its end")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return func() { _ = f.Close() }, nil
}

// test2json is the command that turns what a test binary prints into events.
func test2json(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "-n", "test2json").Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

func title(text string) { fmt.Printf("\n\033[1m== %s\033[0m\n", text) }
