package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// program is the test binary of a package.
type program struct {
	suite
	pkg    string // import path
	folder string // of the package, in which it runs
	file   string
	tests  []string // those to run; nil: all
	piece  string   // which piece of its package this is; empty: it is no piece
}

// garbage is the GOGC of compilers, and of Kubernetes' programs: processors are scarcer than memory.
const garbage = "400"

// short is what a package is called in logs: its folder.
func short(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, "plinth.dev/plinth"), "/")
}

// builder builds test binaries, into a folder, before any of them runs: no compiler and no linker is beside a test.
type builder struct {
	root, folder string
	built        map[string]string // file by tags and package
}

// programs builds what a suite runs. Some packages are cut into pieces, for which it knows how long tests usually take.
func (b *builder) programs(ctx context.Context, s suite, usual map[string]time.Duration) ([]program, error) {
	all, err := b.list(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := b.build(ctx, s.module, s.tags, all); err != nil {
		return nil, err
	}
	if s.known != "" {
		if err := b.build(ctx, s.module, strings.TrimPrefix(s.known, "none"), all); err != nil {
			return nil, err
		}
	}
	var programs []program
	for _, p := range all {
		p.suite, p.file = s, b.built[s.tags+" "+p.pkg]
		if s.known != "" {
			if p.tests, err = b.added(ctx, p); err != nil {
				return nil, err
			}
		}
		if s.pieces && p.tests == nil {
			if p.tests, err = tests(ctx, p, p.file); err != nil {
				return nil, err
			}
		}
		switch {
		case p.tests == nil:
			programs = append(programs, p)
		case len(p.tests) > 0:
			programs = append(programs, p.cut(s.pieces, usual)...)
		}
	}
	return programs, nil
}

// piece is how long a piece of a package is to take. What a package does once for all its tests is done for each piece.
const piece = 200 * time.Second

// cut cuts the tests of a package into pieces that take about as long as each other.
func (p program) cut(pieces bool, usual map[string]time.Duration) []program {
	n := 1
	if pieces {
		n = min(int(p.usual(usual)/piece)+1, len(p.tests))
	}
	if n == 1 {
		return []program{p}
	}
	all := make([]program, n)
	took := make([]time.Duration, n)
	longestFirst := slices.Clone(p.tests)
	slices.SortStableFunc(longestFirst, func(a, b string) int { return cmp.Compare(p.of(b, usual), p.of(a, usual)) })
	for _, test := range longestFirst {
		least := slices.Index(took, slices.Min(took))
		took[least] += p.of(test, usual)
		all[least].tests = append(all[least].tests, test)
	}
	for i := range all {
		mine := all[i].tests
		all[i] = p
		all[i].tests, all[i].piece = mine, fmt.Sprintf("%d of %d", i+1, n)
	}
	return all
}

// usual is how long a program takes usually, one test after the other.
func (p program) usual(usual map[string]time.Duration) (sum time.Duration) {
	if p.tests == nil {
		return usual[short(p.pkg)]
	}
	for _, test := range p.tests {
		sum += p.of(test, usual)
	}
	return sum
}

// of is how long a test takes usually; of one that is new nobody knows it.
func (p program) of(test string, usual map[string]time.Duration) time.Duration {
	if known, ok := usual[short(p.pkg)+" "+test]; ok {
		return known
	}
	return time.Second
}

// list are the packages of a suite that have tests.
func (b *builder) list(ctx context.Context, s suite) ([]program, error) {
	out, err := b.golang(ctx, s.module, nil, append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "-tags=" + s.tags}, s.packages...)...)
	if err != nil {
		return nil, err
	}
	var all []program
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		files := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		if !leftOut(s, p.ImportPath) && slices.ContainsFunc(files, func(f string) bool { return hasTests(filepath.Join(p.Dir, f)) }) {
			all = append(all, program{pkg: p.ImportPath, folder: p.Dir})
		}
	}
}

// hasTests tells whether a file has tests, or benchmarks and what they need alone.
func hasTests(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return true // whoever builds it will say
	}
	for _, m := range testFunction.FindAllSubmatch(text, -1) {
		if string(m[1]) != "TestMain" {
			return true
		}
	}
	return false
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

func leftOut(s suite, pkg string) bool {
	for _, w := range s.without {
		at := "plinth.dev/plinth/" + s.module + "/" + w
		if pkg == at || strings.HasPrefix(pkg, at+"/") {
			return true
		}
	}
	return false
}

// build builds the binaries that are not built yet. go test -c takes several packages whose last elements differ.
func (b *builder) build(ctx context.Context, module, tags string, all []program) error {
	for len(all) > 0 {
		var now, later []program
		names := map[string]bool{}
		for _, p := range all {
			switch name := filepath.Base(p.pkg); {
			case b.built[tags+" "+p.pkg] != "":
			case names[name]:
				later = append(later, p)
			default:
				names[name] = true
				now = append(now, p)
			}
		}
		all = later
		if len(now) == 0 {
			continue
		}
		folder, err := os.MkdirTemp(b.folder, "built-")
		if err != nil {
			return err
		}
		// -trimpath: a clone in another folder has the same packages in the cache. Nobody debugs these binaries.
		arguments := []string{"test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-tags=" + tags, "-o", folder + "/"}
		for _, p := range now {
			arguments = append(arguments, p.pkg)
			b.built[tags+" "+p.pkg] = filepath.Join(folder, filepath.Base(p.pkg)+".test")
		}
		if _, err := b.golang(ctx, module, os.Stderr, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// added are the tests that a package has with the tags of its suite, and without them has not.
func (b *builder) added(ctx context.Context, p program) ([]string, error) {
	with, err := tests(ctx, p, p.file)
	if err != nil {
		return nil, err
	}
	without, err := tests(ctx, p, b.built[strings.TrimPrefix(p.known, "none")+" "+p.pkg])
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, name := range without {
		known[name] = true
	}
	added := []string{}
	for _, name := range with {
		if !known[name] {
			added = append(added, name)
		}
	}
	return added, nil
}

// tests are the names of a binary's tests. One without any has none.
func tests(ctx context.Context, p program, file string) (names []string, err error) {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, file, "-test.list=^(Test|Fuzz|Example)")
	cmd.Dir = p.folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the tests of %s: %w: %s", p.pkg, err, out)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") {
			names = append(names, name)
		}
	}
	return names, nil
}

// golang runs the go command in a module and returns what it prints.
func (b *builder) golang(ctx context.Context, module string, errs io.Writer, arguments ...string) ([]byte, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = filepath.Join(b.root, module)
	cmd.Env = append(os.Environ(), "GOGC="+garbage)
	cmd.Stderr = &said
	if errs != nil {
		cmd.Stderr = io.MultiWriter(&said, errs)
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", arguments[0], err, said.Bytes())
	}
	return out, nil
}
