package plinth_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are folders of tests that make test does not run, and tags of files that it leaves out: what depends on
// the clock, takes long or draws what happens belongs there (docs/explanation/house.md, "The test module").
var (
	elsewhere  = regexp.MustCompile(`^test/(traffic|labs|bench|real|stopwatch|upstream)/|^dist/|^bin/|^\.`)
	leftOut    = []string{"timing", "slow", "chaos"}
	stopwatchs = map[string]string{
		"lb/onlink/bench_privileged_test.go":                      "benchmarks alone",
		"uptime/now_test.go:TestNowCountsAtLeastWhatGosClockDoes": "it compares two clocks, of which the one that is read around the other has more",
		"test/lab/prober_test.go":                                 "it tests what counts losses, on clocks that it sets itself",
	}
)

// TestTheGateHasNoStopwatch: a test that make test runs may wait, and hold that something never takes less than some
// time. It may not fail for what took longer, count what clients lost, or draw from the clock: a process that gets no
// processor for a second is no fault of a change.
func TestTheGateHasNoStopwatch(t *testing.T) {
	looked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && elsewhere.MatchString(path+"/") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || stopwatchs[path] != "" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if tagged(string(text)) {
			return nil
		}
		looked++
		for place, what := range measured(t, path, text) {
			if stopwatchs[path+":"+place.function] == "" {
				t.Errorf("%s:%d: %s %s: that is no fact, and belongs into a file that make test-all runs", path, place.line, place.function, what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 300 {
		t.Errorf("only %d files of tests were found", looked)
	}
}

// tagged reports whether a file is left out of the gate by its build constraint.
func tagged(text string) bool {
	for line := range strings.Lines(text) {
		if !constraint.IsGoBuild(line) {
			continue
		}
		expr, err := constraint.Parse(strings.TrimSpace(line))
		return err == nil && !expr.Eval(func(tag string) bool { return !slices.Contains(leftOut, tag) })
	}
	return false
}

// place is where something is measured.
type place struct {
	function string
	line     int
}

// measured finds what a file measures, by function.
func measured(t *testing.T, path string, text []byte) map[place]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[place]string{}
	bubbles := map[string]bool{} // functions that run in a bubble what they are given: its clock is not this machine's
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && calls(f.Body, "synctest", "Test") {
			bubbles[f.Name.Name] = true
		}
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || strings.HasPrefix(f.Name.Name, "Benchmark") || bubbles[f.Name.Name] || has(f.Body, bubbles) {
			continue
		}
		note := func(n ast.Node, what string) { found[place{f.Name.Name, files.Position(n.Pos()).Line}] = what }
		times := map[string]bool{} // variables that hold how long something took
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				return n.Cond == nil || !calls(n.Cond, "time", "Since") // a wait
			case *ast.AssignStmt:
				for i, right := range n.Rhs {
					if name, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && calls(right, "time", "Since") {
						if _, compared := right.(*ast.BinaryExpr); !compared {
							times[name.Name] = true
						}
					}
				}
			case *ast.BinaryExpr:
				long, short := n.X, n.Y
				if n.Op == token.LSS || n.Op == token.LEQ {
					long, short = n.Y, n.X
				} else if n.Op != token.GTR && n.Op != token.GEQ {
					return true
				}
				if has(long, times) && !has(short, times) {
					note(n, "fails for how long something took")
				}
			case *ast.SelectorExpr:
				if name := n.Sel.Name; (name == "Lost" || name == "Slow") && strings.HasPrefix(path, "test/") {
					note(n, "counts what clients lost")
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(name.Sel.Name, "New") && calls(n, "time", "Now") && len(n.Args) > 0 && isOf(name.X, "rand") {
					note(n, "draws from the clock")
				}
			}
			return true
		})
	}
	return found
}

// calls reports whether something in n calls a function of a package.
func calls(n ast.Node, pkg, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == name && isOf(s.X, pkg) {
				found = true
			}
		}
		return !found
	})
	return found
}

func isOf(n ast.Expr, name string) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == name
}

// has reports whether one of these variables is in n.
func has(n ast.Node, names map[string]bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && names[id.Name] {
			found = true
		}
		return !found
	})
	return found
}

// TestWhatIsMeasuredIsFound holds the rule above against what it is to find, and to let pass.
func TestWhatIsMeasuredIsFound(t *testing.T) {
	const head, tail = "package x\nfunc TestX(t *testing.T) {\n", "\n}\nfunc bubble(t *testing.T, f func()) { synctest.Test(t, f) }\n"
	for body, found := range map[string]bool{
		"if took := time.Since(a); took > time.Second { t.Error() }":             true,
		"took := time.Since(a)\nif time.Second <= took/2 { t.Error() }":          true,
		"if took := time.Since(a); took < time.Second { t.Error() }":             false,
		"for time.Since(a) < time.Second { look() }":                             false,
		"for { if time.Since(a) > time.Second { t.Fatal() } }":                   false,
		"synctest.Test(t, func() { if d := time.Since(a); d > 1 { t.Error() }})": false,
		"bubble(t, func() { if d := time.Since(a); d > 1 { t.Error() }})":        false,
		"if r := p.Stop(); r.Lost > 0 { t.Error() }":                             true,
		"r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)); _ = r":    true,
		"r := rand.New(rand.NewPCG(1, 2)); _ = r":                                false,
	} {
		if got := measured(t, "test/x_test.go", []byte(head+body+tail)); (len(got) > 0) != found {
			t.Errorf("%s: found %v", body, got)
		}
	}
	for line, left := range map[string]bool{"//go:build privileged\n": false, "//go:build privileged && timing\n": true, "//go:build slow\n": true, "//go:build !slow\n": false, "package x\n": false} {
		if tagged(line) != left {
			t.Errorf("%q: left out %t", line, !left)
		}
	}
}
