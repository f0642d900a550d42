package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is the test binary of a package.
type program struct {
	suite
	pkg    string // import path
	folder string // of the package, in which it runs
	file   string
	tests  []string // those to run; nil: all
}

// short is what a package is called in logs: its folder.
func short(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, "plinth.dev/plinth"), "/")
}

// builder builds test binaries, into a folder, before any of them runs: no compiler and no linker is beside a test.
type builder struct {
	root, folder string
	built        map[string]string // file by tags and package
}

// programs builds what a suite runs.
func (b *builder) programs(ctx context.Context, s suite) ([]program, error) {
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
		if p.tests == nil || len(p.tests) > 0 {
			programs = append(programs, p)
		}
	}
	return programs, nil
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
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 && !leftOut(s, p.ImportPath) {
			all = append(all, program{pkg: p.ImportPath, folder: p.Dir})
		}
	}
}

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
