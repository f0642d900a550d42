package lb

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documented lists the names in the first column of every table of the page.
func documented(t *testing.T) (names []string) {
	t.Helper()
	for line := range strings.Lines(referencePage(t, "reasons.md")) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(row, "`")
			names = append(names, name)
		}
	}
	return names
}

func referencePage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// constants lists the values of all constants of a type in a package's source.
func constants(t *testing.T, folder, typ string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			name := ""
			switch of := spec.Type.(type) {
			case *ast.Ident:
				name = of.Name
			case *ast.SelectorExpr: // of another package's type
				name = of.Sel.Name
			}
			if name != typ {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
						values = append(values, s)
					}
				}
			}
			return true
		})
	}
	return values
}

func TestEveryReasonAndCauseHasALineInTheReferenceAndNothingElseHas(t *testing.T) {
	page := documented(t)
	all := slices.Concat(constants(t, ".", "Reason"), constants(t, "bgp", "Reason"), constants(t, "bgp", "Cause"), constants(t, "../routing", "Reason"), constants(t, "../preview", "Reason"), constants(t, "../diagnose", "Reason"))
	if len(all) < 30 {
		t.Fatalf("found only %d names in the source", len(all))
	}
	for _, name := range all {
		if !slices.Contains(page, name) {
			t.Errorf("%s is not in docs/reference/reasons.md", name)
		}
	}
	for _, name := range page {
		if !slices.Contains(all, name) {
			t.Errorf("docs/reference/reasons.md has %s, the source has not", name)
		}
	}
}
