package plinth_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// conditions are the types whose field Message may be what an agent says of its Node.
var conditions = []string{"k8s.io/api/core/v1.NodeCondition", module + "/diagnose.Condition", module + "/diagnose.NodeDetail", module + "/provider/agent/plan.Condition"}

// otherMessages are where a message is a kubelet's, or a column of a table.
var otherMessages = []string{"doctor.readNode", "provider/agent/plan.NodeOf", "cmd/plinth.nodeDetails"}

// shown are the fields, and the key of JSON, in which a message is passed on as a text to show.
var shown = []string{"Message", "Text", `"message"`}

// TestNobodyCutsTheMessageOfANodesCondition holds that it is handed to lb.ParseReport, compared, copied into a field, or
// printed, and neither kept in a variable nor given to a function that takes a string.
func TestNobodyCutsTheMessageOfANodesCondition(t *testing.T) {
	seen, excused := 0, []string{}
	imports := importsOf(t)
	for _, r := range rooms(t) {
		if r.place() != "diagnose" && !slices.Contains(r.Imports, module+"/diagnose") && !slices.Contains(r.Imports, "k8s.io/api/core/v1") {
			continue
		}
		check := messageCheck{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{}}}
		check.read(t, r, imports)
		seen += check.seen
		for at, within := range check.cuts {
			if name := r.place() + "." + within; !slices.Contains(otherMessages, name) {
				t.Errorf("%s: %s makes more of a condition's message than a text to show: lb.ParseReport reads it", check.fset.Position(at), name)
			} else if !slices.Contains(excused, name) {
				excused = append(excused, name)
			}
		}
	}
	if seen < 15 || len(excused) != len(otherMessages) {
		t.Errorf("%d uses of a message, and %v: the rule would hold of nothing", seen, excused)
	}
}

// importsOf has go/types read packages as the go command compiled them.
func importsOf(t *testing.T) types.Importer {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		compiled[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
}

// messageCheck finds what a package makes of messages of conditions.
type messageCheck struct {
	fset *token.FileSet
	info *types.Info
	seen int
	cuts map[token.Pos]string // where more is made of one than a text to show, and within which declaration
}

func (c *messageCheck) read(t *testing.T, r room, imports types.Importer) {
	t.Helper()
	var files []*ast.File
	for _, name := range r.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(r.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if _, err := (&types.Config{Importer: imports}).Check(r.ImportPath, c.fset, files, c.info); err != nil {
		t.Fatal(err)
	}
	c.cuts = map[token.Pos]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			within := nameOf(d)
			ast.PreorderStack(d, nil, func(n ast.Node, above []ast.Node) bool {
				if e, is := n.(*ast.SelectorExpr); is && c.isMessage(e) {
					if c.seen++; !c.isShown(e, above) {
						c.cuts[e.Pos()] = within
					}
				}
				return true
			})
		}
	}
}

// nameOf is the name of a function, or the first that another declaration has.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		if values, are := d.Specs[0].(*ast.ValueSpec); are {
			return values.Names[0].Name
		}
	}
	return ""
}

// isMessage reports whether an expression is the message of a condition.
func (c *messageCheck) isMessage(e *ast.SelectorExpr) bool {
	s := c.info.Selections[e]
	if s == nil || e.Sel.Name != "Message" {
		return false
	}
	of := s.Recv()
	if p, is := of.(*types.Pointer); is {
		of = p.Elem()
	}
	return slices.Contains(conditions, of.String())
}

// isShown reports whether an expression of a message is read as a report, compared, copied into a field, or printed: by what
// stands around it.
func (c *messageCheck) isShown(e ast.Expr, above []ast.Node) bool {
	switch around := above[len(above)-1].(type) {
	case *ast.CompositeLit:
		return true
	case *ast.KeyValueExpr:
		return slices.Contains(shown, types.ExprString(around.Key))
	case *ast.BinaryExpr:
		return around.Op == token.EQL || around.Op == token.NEQ
	case *ast.AssignStmt:
		i := slices.Index(around.Rhs, e)
		if i < 0 {
			return true // it is written
		}
		field, is := around.Lhs[i].(*ast.SelectorExpr)
		return is && slices.Contains(shown, field.Sel.Name)
	case *ast.CallExpr:
		switch name := types.ExprString(around.Fun); name {
		case "lb.ParseReport":
			return true
		case "cmp.Or":
			return c.isShown(around, above[:len(above)-1])
		}
		return c.takesAny(around, slices.Index(around.Args, e))
	}
	return false
}

// takesAny reports whether a function takes an argument as a value of any type, as those do that print.
func (c *messageCheck) takesAny(call *ast.CallExpr, i int) bool {
	s, is := c.info.Types[call.Fun].Type.(*types.Signature)
	if !is {
		return false // a conversion
	}
	last := s.Params().Len() - 1
	of := s.Params().At(min(i, last)).Type()
	if s.Variadic() && i >= last {
		of = of.(*types.Slice).Elem()
	}
	return types.IsInterface(of)
}
