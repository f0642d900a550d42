package guide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/docs"
)

const page = `# Move

Type this:

` + "```console\nfirst\n```" + `

## Before the move

` + "```yaml\nno: command\n```\n\n```console\nsecond\nthird\n```" + `

## After it

` + "```console\nfourth\n```\n"

func TestTheCommandsOfASectionAreThoseBelowItsHeading(t *testing.T) {
	if got := Lines(page); !slices.Equal(got, []string{"first", "second", "third", "fourth"}) {
		t.Errorf("all commands: %q", got)
	}
	section, err := Section(page, "Before")
	if got := Lines(section); err != nil || !slices.Equal(got, []string{"second", "third"}) {
		t.Errorf("those before: %q, %v", got, err)
	}
	if got := Blocks(section); !slices.Equal(got, []string{"second\nthird\n"}) {
		t.Errorf("the blocks before: %q", got)
	}
}

func TestASectionThatIsNotThereIsAnError(t *testing.T) {
	for _, words := range []string{"Meanwhile", ""} { // none, and two
		if section, err := Section(page, words); err == nil {
			t.Errorf("%q: %q", words, section)
		}
	}
}

func TestNamesThatWereNotSeenAreThoseOfOneSection(t *testing.T) {
	unseen, err := Unseen("reasons.md", "Why a Service gets no VIP", []string{"NoPools"})
	if err != nil || slices.Contains(unseen, "NoPools") || !slices.Contains(unseen, "PoolUnknown") || slices.Contains(unseen, "NoEndpoint") {
		t.Errorf("unseen are %q, %v", unseen, err)
	}
	if unseen, err := Unseen("reasons.md", "Why a session does", nil); err == nil {
		t.Errorf("half a heading is taken: %q", unseen)
	}
}

// TestEveryReasonIsNamedByATestThatProvokesIt keeps a new reason from having none. The guard of sessions keeps Plinth from mistakes of its own, which
// no inventory provokes: its reasons are those of tests of package bgp. Names in this package are lists, and provoke nothing.
func TestEveryReasonIsNamedByATestThatProvokesIt(t *testing.T) {
	named := map[string]bool{}
	for _, folder := range []string{"..", "../../lb/bgp"} {
		err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "guide":
				return fs.SkipDir
			case !strings.HasSuffix(file, ".go") || folder != ".." && !strings.HasSuffix(file, "_test.go"):
				return nil
			}
			return nameAll(file, folder != "..", named)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	explained := 0
	for _, word := range docs.Words() {
		if word.Page != "reference/reasons.md" || word.Kind != "reason" && word.Kind != "cause" {
			continue
		}
		if explained++; !named[word.Name] {
			t.Errorf("no test provokes %s (%s)", word.Name, word.Section)
		}
	}
	if explained < 100 {
		t.Errorf("reasons.md explains %d names: they are read wrongly", explained)
	}
}

var wordOfText = regexp.MustCompile("[A-Za-z]+")

// nameAll adds the names that a file of Go has in its strings, and as constants: of package lb, or, if it is to be, of its own.
func nameAll(file string, own bool, to map[string]bool) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			for _, word := range wordOfText.FindAllString(n.Value, -1) {
				to[word] = true
			}
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "lb" {
				to[n.Sel.Name] = true
			}
		case *ast.Ident:
			to[n.Name] = to[n.Name] || own
		}
		return true
	})
	return nil
}
