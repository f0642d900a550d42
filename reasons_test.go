package plinth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kindRow is a row of the table of kinds in docs/reference/reasons.md: its last cells are a type and a file.
var kindRow = regexp.MustCompile("(?m)\\| `(\\w+\\.\\w+)` \\| `([\\w/]+\\.go)` \\|$")

// kindNamed matches names of types whose values name a "no", its cause, a state or a problem.
var kindNamed = regexp.MustCompile(`(Reason|Cause|State|Code)$`)

// kind is a type of names, with a file that has constants of it.
type kind struct{ Type, File string }

// TestEveryKindOfNamesHasARowWithItsFile holds the table against the types and constants of the sources.
func TestEveryKindOfNamesHasARowWithItsFile(t *testing.T) {
	var listed []kind
	owner := map[string]string{}
	for _, m := range kindRow.FindAllStringSubmatch(read(t, "docs/reference/reasons.md"), -1) {
		if has := owner[m[2]]; has != "" {
			t.Errorf("%s is the file of %s and of %s: each kind has one of its own", m[2], has, m[1])
		}
		owner[m[2]] = m[1]
		listed = append(listed, kind{m[1], m[2]})
	}
	var declared, constants []kind
	for _, r := range rooms(t) {
		for _, name := range r.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(r.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			types, values := kindsOf(file)
			for _, of := range types {
				declared = append(declared, kind{of, path.Join(r.place(), name)})
			}
			for _, of := range values {
				constants = append(constants, kind{of, path.Join(r.place(), name)})
			}
		}
	}
	for _, d := range declared {
		if !slices.Contains(listed, d) {
			t.Errorf("docs/reference/reasons.md has no row of %s in %s", d.Type, d.File)
		}
	}
	constants = slices.DeleteFunc(constants, func(c kind) bool {
		return !slices.ContainsFunc(declared, func(d kind) bool { return d.Type == c.Type })
	})
	if diff := cmp.Diff(sortedKinds(constants), sortedKinds(listed)); diff != "" {
		t.Errorf("files with constants of each kind (-sources +docs/reference/reasons.md):\n%s", diff)
	}
	if len(declared) < 8 {
		t.Errorf("only %d kinds were found", len(declared))
	}
}

func sortedKinds(all []kind) []kind {
	slices.SortFunc(all, func(a, b kind) int { return strings.Compare(a.File+a.Type, b.File+b.Type) })
	return slices.Compact(all)
}

// kindsOf are the kinds that a file declares, and the types of its constants, with the names of their packages.
func kindsOf(file *ast.File) (types, constants []string) {
	for _, declaration := range file.Decls {
		group, is := declaration.(*ast.GenDecl)
		if !is {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if of := typeNameIn(file, spec.Type); kindNamed.MatchString(spec.Name.Name) && spec.Name.IsExported() && (of == file.Name.Name+".string" || spec.Assign.IsValid()) {
					types = append(types, file.Name.Name+"."+spec.Name.Name)
				}
			case *ast.ValueSpec:
				if of := typeNameIn(file, spec.Type); of != "" && group.Tok == token.CONST {
					constants = append(constants, of)
				}
			}
		}
	}
	return types, constants
}

// typeNameIn is the name of a type with that of its package; empty: it is no name.
func typeNameIn(file *ast.File, of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return file.Name.Name + "." + of.Name
	case *ast.SelectorExpr:
		if from, is := of.X.(*ast.Ident); is {
			return from.Name + "." + of.Sel.Name
		}
	}
	return ""
}
