package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/gotest"
	"plinth.dev/plinth/test/still"
)

// timeout is how long the tests of a package may take.
const timeout = 45 * time.Minute

// outcome is what came of one test, or of a part that is a command.
type outcome struct {
	gotest.Result
	part    string
	log     string        // file, as seen from the root
	again   string        // the command that runs exactly this again
	stood   time.Duration // how long the machine stood still meanwhile
	starved []still.Wait  // why its failure shows nothing, where the part is of those that depend on the clock
	job     job
}

func (o outcome) good() bool { return o.Outcome == gotest.Passed }

// executor runs test binaries.
type executor struct {
	root, folder string
	wrapper      []string // -exec: what stands before a command that needs root
	reader       []string // go tool test2json
	still        *still.Watch
	progress     func(format string, args ...any)
}

// job is what runs beside other jobs: the tests of a package, a piece of them, or a part that is a command.
type job struct {
	part  part
	one   program
	usual time.Duration
}

// run runs jobs in so many places side by side, and returns how long those of each part took.
func (x executor) run(ctx context.Context, jobs []job, places int) (all []outcome, took map[string]time.Duration) {
	type done struct {
		job
		of   []outcome
		took time.Duration
	}
	took = map[string]time.Duration{}
	ended := make(chan done)
	waiting, running := newQueue(jobs, places), 0
	for {
		for j, ok := waiting.next(); ok && ctx.Err() == nil; j, ok = waiting.next() {
			running++
			go func() {
				begun := time.Now()
				d := done{job: j}
				if len(j.part.command) > 0 {
					d.of = x.command(ctx, j.part)
				} else {
					d.of = x.program(ctx, j.part, j.one)
				}
				d.took = time.Since(begun)
				ended <- d
			}()
		}
		if running == 0 {
			return all, took
		}
		d := <-ended
		running--
		waiting.ended(d.job)
		all = append(all, d.of...)
		took[d.part.name] += d.took
	}
}

// judgeAgain runs tests once more that failed while programs lacked a processor, each alone on a machine that is calm, or
// after five minutes in which it never was. It returns all outcomes as they are then, and those of the first time.
func (x executor) judgeAgain(ctx context.Context, all []outcome) (now, before []outcome) {
	for _, o := range all {
		if o.good() || len(o.starved) == 0 || o.Test == "" {
			now = append(now, o)
			continue
		}
		before = append(before, o)
		if len(before) == 1 {
			title("once more, alone, since programs waited for a processor")
		}
		calm, cancel := context.WithTimeout(ctx, 5*time.Minute)
		still.Calm(calm, 10)
		cancel()
		o.job.one.tests, o.job.one.piece = []string{o.Test}, "again "+o.Test
		now = append(now, x.program(ctx, o.job.part, o.job.one)...)
	}
	return now, before
}

// program runs the tests of one package.
func (x executor) program(ctx context.Context, p part, one program) []outcome {
	name := cmp.Or(short(one.pkg), "root")
	if one.piece != "" {
		name += " " + one.piece
	}
	file := filepath.Join(x.folder, p.name, strings.NewReplacer("/", "-", " ", "-").Replace(name)+".log")
	log, err := create(file)
	if err != nil {
		return []outcome{x.broken(p, one, file, err)}
	}
	defer log.Close()
	arguments := append(slices.Clone(x.wrapper), one.file, "-test.v=test2json", "-test.paniconexit0", "-test.timeout="+timeout.String())
	arguments = append(arguments, one.flags...)
	if one.tests != nil {
		arguments = append(arguments, "-test.run="+exactly(one.tests))
	}
	cmd := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	cmd.Dir, cmd.Env = one.folder, append(append(os.Environ(), components.GarbageVariable+"="+garbage), one.env...)
	if !p.plain { // make has built them
		cmd.Env = append(cmd.Env, components.ProgramsVariable+"="+filepath.Join(x.root, "bin"))
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	begun := time.Now()
	results, err := x.follow(cmd, one.pkg, log)
	var all []outcome
	failed, n := 0, 0
	for _, r := range results {
		o := outcome{Result: r, part: p.name, log: x.seen(file), again: x.again(one, r.Test), job: job{part: p, one: one}}
		if o.Test != "" {
			n++
		}
		if !o.good() {
			failed++
			from := o.Began
			if from.IsZero() {
				from = begun
			}
			_, o.stood, _ = x.still.Stood(from, time.Now())
			if p.clock {
				o.starved = x.still.Starved(from, time.Now())
			}
		}
		all = append(all, o)
	}
	if err != nil && failed == 0 {
		all = append(all, x.broken(p, one, file, err))
		failed++
	}
	said := "ok  "
	if failed > 0 {
		said = "FAIL"
	}
	x.progress("%s %-32s %4d tests %6.1f s%s", said, name, n, time.Since(begun).Seconds(), worked(cmd))
	return all
}

// follow runs a test binary through test2json and reads what comes of it.
func (x executor) follow(cmd *exec.Cmd, pkg string, log io.Writer) ([]gotest.Result, error) {
	convert := exec.Command(x.reader[0], append(slices.Clone(x.reader[1:]), "-t", "-p", pkg)...)
	in, err := convert.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := convert.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := convert.Start(); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run()
		in.Close()
		ended <- err
	}()
	results, err := gotest.Read(out, func(line string) { _, _ = io.WriteString(log, line) })
	_, _ = io.Copy(io.Discard, out)
	return results, errors.Join(err, <-ended, convert.Wait())
}

// sweep removes what runs that were killed have left.
func (x executor) sweep(ctx context.Context) error {
	command := append(slices.Clone(x.wrapper), filepath.Join(x.root, "bin", "plinth-lab"), "sweep")
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// exactly is an expression that matches these names and no other.
func exactly(tests []string) string {
	var names []string
	for _, t := range tests {
		names = append(names, regexp.QuoteMeta(t))
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// again is how a person runs one test of a package once more.
func (x executor) again(one program, test string) string {
	words := slices.Clone(one.env)
	words = append(words, "go test")
	if one.module != "." {
		words = append(words, "-C "+one.module) // the first flag, or go does not take it
	}
	words = append(words, "-count=1")
	if one.tags != "" {
		words = append(words, "-tags "+one.tags)
	}
	place := strings.TrimPrefix(short(one.pkg), one.module+"/")
	words = append(words, "./"+place)
	if test != "" {
		words = append(words, "-run '^"+test+"$'")
	}
	return strings.Join(words, " ")
}

// broken is of a package whose tests could not be run, or that failed beside its tests.
func (x executor) broken(p part, one program, file string, err error) outcome {
	return outcome{Result: gotest.Result{Package: one.pkg, Outcome: gotest.Failed, Output: []string{err.Error()}}, part: p.name, log: x.seen(file), again: x.again(one, "")}
}

// command runs a part that is no test of Go.
func (x executor) command(ctx context.Context, p part) []outcome {
	file := filepath.Join(x.folder, p.name+".log")
	log, err := create(file)
	if err != nil {
		return []outcome{{Result: gotest.Result{Test: p.name, Outcome: gotest.Failed, Output: []string{err.Error()}}, part: p.name}}
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = x.root, log, log
	begun := time.Now()
	o := outcome{Result: gotest.Result{Test: p.name, Outcome: gotest.Passed}, part: p.name, log: x.seen(file), again: strings.Join(p.command, " ")}
	if err := cmd.Run(); err != nil {
		o.Outcome = gotest.Failed
		text, _ := os.ReadFile(file)
		o.Output = lastLines(string(text), 5)
	}
	o.Took = time.Since(begun)
	x.progress("%s %-32s            %6.1f s%s", map[bool]string{true: "ok  ", false: "FAIL"}[o.good()], p.name, o.Took.Seconds(), worked(cmd))
	return []outcome{o}
}

// worked says for how long a processor worked for a command and what it has started and waited for.
func worked(cmd *exec.Cmd) string {
	if cmd.ProcessState == nil {
		return ""
	}
	return fmt.Sprintf(", of a processor %6.1f s", (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
}

// lastLines are the last lines of a text that are not empty.
func lastLines(text string, n int) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return lines[max(0, len(lines)-n):]
}

// seen is a file as seen from the root.
func (x executor) seen(file string) string {
	if rel, err := filepath.Rel(x.root, file); err == nil {
		return rel
	}
	return file
}

func create(file string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("the folder of a log: %w", err)
	}
	return os.Create(file)
}
