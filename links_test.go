package plinth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// TestLinksBetweenPagesLeadSomewhere follows every link of a page to another, and to its heading.
func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	followed := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s is not there", page, m[1])
			} else if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were found", followed)
	}
}

func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors are the headings of a page as links name them.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		plain := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		all = append(all, plain)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fileNamed = regexp.MustCompile("`([A-Za-z0-9_/.-]+\\.(?:go|md))`")
	testNamed = regexp.MustCompile(`\b(Test[A-Z]\w+)`)
)

// TestWhoContributesFindsTheFilesAndTestsThatArePointedAt: what CONTRIBUTING.md and the lists of changes name is there.
func TestWhoContributesFindsTheFilesAndTestsThatArePointedAt(t *testing.T) {
	var tests strings.Builder
	var bases []string // names of files, for those that the text has in a folder that it named before
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		bases = append(bases, filepath.Base(path))
		if err == nil && strings.HasSuffix(path, "_test.go") {
			tests.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, names := 0, 0
	for _, page := range []string{"CONTRIBUTING.md", changesPage} {
		text := read(t, page)
		for _, m := range fileNamed.FindAllStringSubmatch(text, -1) {
			files++
			if _, err := os.Stat(m[1]); err != nil && !slices.Contains(bases, m[1]) && !slices.Contains(examples, m[1]) {
				t.Errorf("%s points at %s, which is not there", page, m[1])
			}
		}
		for _, m := range testNamed.FindAllStringSubmatch(text, -1) {
			names++
			whole := "func " + m[1] + "("
			if regexp.MustCompile(`-run ['"]?[\w|]*` + m[1]).MatchString(text) { // which takes a beginning
				whole = "func " + m[1]
			}
			if !slices.Contains(examples, m[1]) && !strings.Contains(tests.String(), whole) {
				t.Errorf("%s names %s, and there is no such test", page, m[1])
			}
		}
	}
	if files < 30 || names < 10 {
		t.Errorf("only %d files and %d tests were found", files, names)
	}
}

// examples are names on these pages that stand for those of who reads them.
var examples = []string{"TestTheNameOfYours", "cmd/plinth/COMMAND.go", "test/e2e/NAME_test.go"}

// ownedPath is one that a line of CODEOWNERS begins with, in its comments too: nobody is named there yet.
var ownedPath = regexp.MustCompile(`(?:^|[\s#])(/[^\s#]*)`)

// TestWhatHasOwnersIsThere: a pattern that matches nothing is no error to who reads CODEOWNERS.
func TestWhatHasOwnersIsThere(t *testing.T) {
	found := 0
	for line := range strings.Lines(read(t, ".github/CODEOWNERS")) {
		for _, m := range ownedPath.FindAllStringSubmatch(line, -1) {
			found++
			info, err := os.Stat("." + m[1])
			if err != nil || strings.HasSuffix(m[1], "/") && !info.IsDir() {
				t.Errorf("CODEOWNERS names %s, which is not there (%v)", m[1], err)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d paths were found", found)
	}
}

// TestEveryPackageHasALineOfOwners holds CODEOWNERS against the packages of the house.
func TestEveryPackageHasALineOfOwners(t *testing.T) {
	var owned []string
	for line := range strings.Lines(read(t, ".github/CODEOWNERS")) {
		for _, m := range ownedPath.FindAllStringSubmatch(line, -1) {
			owned = append(owned, m[1])
		}
	}
	for _, r := range rooms(t) {
		if !slices.ContainsFunc(owned, func(path string) bool { return strings.HasPrefix("/"+r.place()+"/", path) }) {
			t.Errorf("no line of CODEOWNERS is of %s", r.place())
		}
	}
}

// required matches a module that go.mod requires and that is not there for another one.
var required = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// TestEveryDependencyHasItsReason holds the modules that go.mod requires against the page that says why.
func TestEveryDependencyHasItsReason(t *testing.T) {
	page := read(t, "docs/explanation/dependencies.md")
	modules := required.FindAllStringSubmatch(read(t, "go.mod"), -1)
	for _, m := range modules {
		if !strings.Contains(page, "`"+m[1]+"`") && !strings.Contains(page, "`"+m[1]+"/") {
			t.Errorf("docs/explanation/dependencies.md does not say what %s is for", m[1])
		}
	}
	if len(modules) < 20 {
		t.Errorf("only %d modules were found", len(modules))
	}
}
