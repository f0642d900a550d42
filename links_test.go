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

// TestWhoContributesFindsTheFilesAndTestsThatArePointedAt: what CONTRIBUTING.md names is there.
func TestWhoContributesFindsTheFilesAndTestsThatArePointedAt(t *testing.T) {
	page := read(t, "CONTRIBUTING.md")
	files := fileNamed.FindAllStringSubmatch(page, -1)
	for _, m := range files {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("CONTRIBUTING.md points at %s, which is not there", m[1])
		}
	}
	var tests strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			tests.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := testNamed.FindAllString(page, -1)
	for _, name := range names {
		if name != "TestTheNameOfYours" && !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("CONTRIBUTING.md names %s, and there is no such test", name)
		}
	}
	if len(files) < 5 || len(names) < 2 {
		t.Errorf("only %d files and %d tests were found", len(files), len(names))
	}
}

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
