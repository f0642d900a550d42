package bfd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tests are the names of all tests in some packages.
func tests(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(folder, files, err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					all[fn.Name.Name] = true
				}
			}
		}
	}
	return all
}

func TestTheTestsOfTheReferencePageExist(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/bfd.md")
	if err != nil {
		t.Fatal(err)
	}
	exist := tests(t, ".", "../lb/bgp")
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	rfcs := map[string]int{}
	for line := range strings.Lines(string(page)) {
		rfc, isRow := strings.CutPrefix(line, "| ")
		if !isRow || strings.HasPrefix(rfc, "RFC") {
			continue
		}
		rfcs[rfc[:4]]++
		names := named.FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test holds %s", line)
		}
		for _, n := range names {
			if !exist[n[1]] {
				t.Errorf("there is no %s", n[1])
			}
		}
	}
	for _, rfc := range []string{"5880", "5881", "5882", "5883"} {
		if rfcs[rfc] == 0 {
			t.Errorf("the page has no row of RFC %s: %v", rfc, rfcs)
		}
	}
}
