package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plinth.dev/plinth/docs"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/importer"
)

// printed are the words of the sources that programs print or write into objects, each with
// the place of one of its uses.
func printed(t *testing.T) map[string]string {
	t.Helper()
	words := map[string]string{}
	set := token.NewFileSet()
	for _, folder := range []string{"inventory", "lb", "provider", "preview", "diagnose", "routing", "cmd"} {
		err := filepath.WalkDir("../../"+folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, word := range wordsIn(n) {
					words[word] = path
				}
				_, isImport := n.(*ast.ImportSpec)
				return !isImport
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return words
}

var (
	ours = regexp.MustCompile(`^plinth(\.dev|\.node-restriction\.kubernetes\.io)/[A-Za-z-]+$`)
	// named matches names of constants and of their types whose values people meet.
	named     = regexp.MustCompile(`(?i)^(reason|fabric)|^(AsPlanned|Incomplete)$`)
	typed     = []string{"Reason", "Cause", "MismatchReason", "Mark", "State", "PoolState", "Mode", "WayKind", "phase"}
	recorders = []string{"Event", "Eventf", "Warn"}
	camelCase = regexp.MustCompile(`^[A-Z][a-z]+[A-Za-z]*$`)
)

// wordsIn are the words that a node of the syntax has.
func wordsIn(n ast.Node) (words []string) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if word, err := strconv.Unquote(n.Value); err == nil && ours.MatchString(word) {
			words = append(words, word)
		}
	case *ast.ValueSpec:
		typ := typeOf(n.Type)
		for i, value := range n.Values {
			if slices.Contains(typed, typ) || typ == "" && named.MatchString(n.Names[i].Name) {
				words = append(words, textOf(value)...)
			}
		}
	case *ast.CallExpr: // of whoever records an Event with a reason that has no constant
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(recorders, f.Sel.Name) {
			for _, arg := range n.Args {
				for _, word := range textOf(arg) {
					if camelCase.MatchString(word) {
						words = append(words, word)
					}
				}
			}
		}
	}
	return words
}

// typeOf is the name of a type, be it another package's; empty: there is none.
func typeOf(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}

func textOf(e ast.Expr) []string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if word, err := strconv.Unquote(lit.Value); err == nil && word != "" {
			return []string{word}
		}
	}
	return nil
}

// explained is what plinth explain prints of a word, and its exit code.
func explained(word string) (int, string) {
	var out bytes.Buffer
	code := run([]string{"explain", "--", word}, nil, &out, &out)
	return code, out.String()
}

func TestEveryWordThatIsPrintedIsExplained(t *testing.T) {
	words := printed(t)
	for _, nowhere := range []string{
		"plinth.dev/provider-id", "plinth.dev/system-uuid", // indices of an informer
		"Synced", // an Event of a stock controller that is not sent
	} {
		delete(words, nowhere)
	}
	for _, some := range []string{"PoolExhausted", "ASNMismatch", "SystemUUIDDiffers", "InventoryRefused", "Degraded", "plinth.dev/allow-removals", "draining", "established", "RouterFailed", "unreachable"} {
		if words[some] == "" {
			t.Errorf("%s is not found in the sources: this test says nothing of its like", some)
		}
	}
	for word, path := range words {
		if code, out := explained(word); code != exitGood {
			t.Errorf("%s, in %s, has no row in the pages of docs/reference that plinth explain knows: %s", word, path, out)
		}
	}
}

func TestNoPageExplainsALabelThatThereIsNot(t *testing.T) {
	words := printed(t)
	for _, w := range docs.Words() {
		if ours.MatchString(w.Name) && words[w.Name] == "" {
			t.Errorf("%s has %s, the sources have not", w.Page, w.Name)
		}
	}
}

func TestEveryFieldIsExplainedWithAndWithoutSpec(t *testing.T) {
	paths := document.FieldPaths()
	if len(paths) < 80 {
		t.Fatalf("there are %d fields", len(paths))
	}
	for _, path := range paths {
		key := path[strings.LastIndex(path, ".")+1:]
		if slices.Contains(paths, "spec."+key) || slices.Contains(paths, key) {
			key = path // by itself it means that one
		}
		for _, spelled := range []string{path, strings.TrimPrefix(path, "spec."), key} {
			if code, out := explained(spelled); code != exitGood || !strings.Contains(out, path+":") {
				t.Errorf("%s, spelled %s: %d\n%s", path, spelled, code, out)
			}
		}
	}
}

func TestEveryCodeIsExplainedInAnyCase(t *testing.T) {
	for _, d := range document.CodeDocs() {
		for _, spelled := range []string{string(d.Code), strings.ToLower(string(d.Code)), "error[" + string(d.Code) + "]", d.Name} {
			if code, out := explained(spelled); code != exitGood || !strings.HasPrefix(out, string(d.Code)+" "+d.Name+"\n") {
				t.Errorf("%s, spelled %s: %d\n%s", d.Code, spelled, code, out)
			}
		}
	}
}

func TestEveryCodeOfAnImportIsExplainedWithWhatToDo(t *testing.T) {
	for _, code := range []importer.Code{importer.NotRead, importer.UnknownField, importer.NoCounterpart, importer.NotValid, importer.Renamed, importer.Guessed, importer.ByHand, importer.Differs} {
		for _, spelled := range []string{string(code), strings.ToLower(string(code)), "note[" + string(code) + "]", "note[" + string(code) + "]:"} {
			if code, out := explained(spelled); code != exitGood || !strings.Contains(out, "what to do: ") {
				t.Errorf("%s: %d\n%s", spelled, code, out)
			}
		}
	}
}
