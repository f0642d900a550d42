package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"plinth.dev/plinth/test/components"
)

// suite is a folder of stories.
type suite struct {
	name   string   // folder in test/
	with   []string // folders whose stories count with it
	title  string   // in the README
	beside bool     // mostly waits, and does not mind others
	nodes  bool     // runs what real machines run
}

var suites = []suite{
	{name: "services", title: "VIPs", beside: true},
	{name: "nodes", title: "Nodes, inventory", beside: true},
	{name: "deploy", title: "manifests, rights", beside: true},
	{name: "e2e", title: "whole datacenters", with: []string{"traffic", "labs"}},
	{name: "real", title: "real kubelets", nodes: true},
}

// tags are those that stories have besides what always runs.
var tags = []string{"slow", "chaos"}

// folders are those in test/ whose stories the suite has.
func (s suite) folders() []string { return append([]string{s.name}, s.with...) }

func suiteNamed(name string) (suite, bool) {
	for _, s := range suites {
		if s.name == name {
			return s, true
		}
	}
	return suite{}, false
}

func suiteNames() string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// runner runs suites on one version after the other.
type runner struct {
	commit string
	suites []suite
	build  func(ctx context.Context, pin components.Pin, suites []suite) error
	run    func(ctx context.Context, pin components.Pin, s suite) tally
	record func(row) error // keeps what came of a version
}

// all runs all suites on all versions: one that fails keeps no other from running. It
// returns an error where it was interrupted, or a row cannot be recorded; the rows before are.
func (r runner) all(ctx context.Context, pins []components.Pin) (rows []row, good bool, err error) {
	good = true
	for _, pin := range pins {
		result, passed := r.on(ctx, pin)
		if err := ctx.Err(); err != nil {
			return rows, false, err
		}
		if err := r.record(result); err != nil {
			return rows, false, err
		}
		rows, good = append(rows, result), good && passed
	}
	return rows, good, nil
}

// on runs all suites on one version.
func (r runner) on(ctx context.Context, pin components.Pin) (result row, passed bool) {
	result = row{patch: strings.TrimPrefix(pin.Kubernetes, "v"), etcd: strings.TrimPrefix(pin.Etcd, "v"), day: today(), commit: r.commit, cells: map[string]string{}}
	if err := r.build(ctx, pin, r.suites); err != nil {
		say("%s: %v", pin.Kubernetes, err)
		for _, s := range r.suites {
			result.cells[s.title] = "**not built**"
		}
		return result, false
	}
	var mu sync.Mutex
	passed = true
	one := func(s suite) {
		said := r.run(ctx, pin, s)
		mu.Lock()
		defer mu.Unlock()
		result.cells[s.title], passed = said.String(), passed && said.good()
	}
	r.besides(one)
	for _, s := range r.suites {
		if !s.beside {
			one(s)
		}
	}
	return result, passed
}

// besides runs the suites that mostly wait, two at a time.
func (r runner) besides(one func(suite)) {
	var all sync.WaitGroup
	places := make(chan struct{}, 2)
	for _, s := range r.suites {
		if !s.beside {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			one(s)
		})
	}
	all.Wait()
}

// build builds the version's programs, where they are not there yet, and has this process
// and all that it starts use them.
func build(ctx context.Context, pin components.Pin, suites []suite) error {
	if err := os.Setenv(components.KubernetesVariable, pin.Minor); err != nil {
		return err
	}
	_, err := components.Find(ctx, say)
	if err == nil && slices.ContainsFunc(suites, func(s suite) bool { return s.nodes }) {
		_, err = components.FindNode(ctx, say)
	}
	return err
}

// goTest runs suites with go test.
type goTest struct {
	root    string // the source tree
	wrapper string // -exec
	logs    string // folder of what the suites print
}

// run runs one suite on the version that build was for.
func (g goTest) run(ctx context.Context, pin components.Pin, s suite) tally {
	file := filepath.Join(g.logs, pin.Minor+"-"+s.name+".log")
	log, err := os.Create(file)
	if err != nil {
		say("%s %s: %v", pin.Kubernetes, s.name, err)
		return tally{err: err}
	}
	defer log.Close()
	say("%s %s: begins; what it prints is in %s", pin.Kubernetes, s.name, file)
	begun := time.Now()
	arguments := []string{"test", "-json", "-tags=" + strings.Join(tags, ","), "-count=1", "-p=1", "-timeout=45m", "-exec=" + g.wrapper}
	for _, folder := range s.folders() {
		arguments = append(arguments, "./"+folder+"/...")
	}
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir, cmd.Stderr = filepath.Join(g.root, "test"), log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	said := follow(cmd, log)
	stories, err := s.stories(g.root)
	said.stories, said.err = stories, errors.Join(said.err, err)
	say("%s %s: %s after %s", pin.Kubernetes, s.name, said, time.Since(begun).Round(time.Second))
	for _, name := range said.failed {
		say("    %s", name)
	}
	return said
}

func say(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
