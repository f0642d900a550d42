package document

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/inventory"
)

//go:generate go test -run TestReferencePages . -update

// The raw types and the codes carry their documentation as comments. The
// schema, the explanations and the reference pages are all made of these.
//
//go:embed raw.go raw_pool.go raw_link.go
var rawSources embed.FS

// FieldDoc describes one key of a mapping.
type FieldDoc struct {
	Key      string
	Type     string // as in raw.go: scalar[string], list[rawRack], entries[string] …
	Form     string // which values of that type: a word, or the least and the largest, such as "1..255"
	Required bool
	Doc      string
	Hidden   bool // not for people to write
}

// TypeDoc describes one kind of mapping.
type TypeDoc struct {
	Name   string
	Doc    string
	Fields []FieldDoc
}

// Types returns the description of every mapping of an inventory, in the order
// in which they appear in one; the first is the document itself.
func Types() []TypeDoc {
	var decls []ast.Decl
	for _, file := range []string{"raw.go", "raw_pool.go", "raw_link.go"} {
		source, _ := rawSources.ReadFile(file) // it is embedded
		decls = append(decls, parseSource(string(source)).Decls...)
	}
	all := map[string]TypeDoc{}
	var out []TypeDoc
	for _, d := range decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		spec := decl.Specs[0].(*ast.TypeSpec)
		if s, ok := spec.Type.(*ast.StructType); ok && strings.HasPrefix(spec.Name.Name, "raw") {
			doc := typeDoc(spec.Name.Name, decl.Doc.Text(), s, all)
			all[doc.Name] = doc
			if doc.Name != "rawSession" { // others embed it
				out = append(out, doc)
			}
		}
	}
	return out
}

// parseSource reads a file of this package. It compiles, so it parses.
func parseSource(source string) *ast.File {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	return file
}

// typeDoc reads a struct. An embedded one lends its fields.
func typeDoc(name, doc string, s *ast.StructType, before map[string]TypeDoc) TypeDoc {
	t := TypeDoc{Name: name, Doc: typeSentence(strings.TrimPrefix(oneLine(doc), name+" "))}
	for _, field := range s.Fields.List {
		if embedded, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 {
			t.Fields = append(t.Fields, before[embedded.Name].Fields...)
		}
		if field.Tag == nil {
			continue
		}
		text, _ := strconv.Unquote(field.Tag.Value)
		tag := reflect.StructTag(text)
		t.Fields = append(t.Fields, FieldDoc{
			Key: tag.Get("key"), Type: typeText(field.Type), Form: tag.Get("form"), Doc: oneLine(field.Doc.Text()),
			Required: tag.Get("required") != "", Hidden: tag.Get("hidden") != "",
		})
	}
	return t
}

// typeSentence turns "is a rack." into "A rack."
func typeSentence(s string) string {
	s = strings.TrimPrefix(s, "is ")
	return strings.ToUpper(s[:1]) + s[1:]
}

// typeText prints a type as it is written.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if from := typeText(e.X); from != "inventory" {
			return from + "." + e.Sel.Name
		}
		return e.Sel.Name
	case *ast.IndexExpr:
		return typeText(e.X) + "[" + typeText(e.Index) + "]"
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// CodeDoc describes one kind of problem.
type CodeDoc struct {
	Code  inventory.Code
	Name  string // of the constant
	Topic string
	Doc   string
}

// CodeDocs returns the description of every code, sorted.
func CodeDocs() []CodeDoc {
	var out []CodeDoc
	for _, d := range parseSource(inventory.CodesSource).Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			code, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			out = append(out, CodeDoc{inventory.Code(code), spec.Names[0].Name, oneLine(decl.Doc.Text()), oneLine(spec.Doc.Text())})
		}
	}
	slices.SortFunc(out, func(a, b CodeDoc) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return out
}
