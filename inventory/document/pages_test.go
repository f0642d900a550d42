package document

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/golden"
)

const reference = "../../docs/reference"

// TestReferencePages holds the pages that are made of this package's comments
// and bad files against them. go generate writes them again.
func TestReferencePages(t *testing.T) {
	pages := map[string][]byte{
		"inventory.md":          fieldPage(t),
		"inventory.schema.json": Schema(),
		"problems/README.md":    problemIndex(),
	}
	files := badFiles(t)
	for _, d := range CodeDocs() {
		pages["problems/"+string(d.Code)+".md"] = problemPage(d, files)
	}
	for name, made := range pages {
		golden.Hold(t, filepath.Join(reference, name), made)
	}
	paths, err := filepath.Glob(reference + "/problems/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if pages["problems/"+filepath.Base(path)] == nil {
			t.Errorf("%s is about a code that there is not: remove it", path)
		}
	}
}

const generated = "<!-- Written by go generate ./inventory/document from the comments of %s. -->\n\n"

const fieldIntro = `# The inventory, field by field

One kind of YAML document describes the whole datacenter. It may stand in a file or in a key of a ConfigMap, and be
split over any number of documents of one ` + "`metadata.name`" + `: lists of named things and mappings of free keys are joined,
every other setting is given once. This is a whole inventory, for all else has a default:

` + "```yaml\n%s```" + `

Keys that begin with ` + "`x-`" + ` are allowed anywhere and ignored, which is the place for YAML anchors. Every other key that
is not on this page is an error. An empty value, and an empty list, is as good as none.

` + "`plinth explain FIELD`" + ` prints the same on the terminal, ` + "`plinth explain machine/NAME PATH...`" + ` where each value of a
machine comes from, and ` + "`plinth validate PATH...`" + ` what is wrong. [The JSON Schema](inventory.schema.json) lets an editor
complete keys: ` + "`# yaml-language-server: $schema=...`" + `.
`

// fieldPage is the reference of every field.
func fieldPage(t *testing.T) []byte {
	home, err := os.ReadFile("../inventorytest/home.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, generated, "inventory/document/raw.go")
	fmt.Fprintf(&b, fieldIntro, home)
	types := Types()
	paths := map[string]string{types[0].Name: "The document"}
	for _, of := range types {
		if of.Name == "rawGracefulRestart" {
			paths[of.Name] = "spec.bgp.gracefulRestart"
		}
		for _, f := range of.Fields {
			if inner := typeNamed(types, f).Name; inner != "" && paths[inner] == "" {
				paths[inner] = childPath(paths[of.Name], f)
			}
		}
	}
	for _, of := range inOrder(types, paths) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | value | meaning |\n|---|---|---|\n", heading(paths[of.Name]), of.Doc)
		for _, f := range of.Fields {
			if !f.Hidden {
				fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", f.Key, f.Kind(), requiredNote(f), strings.ReplaceAll(f.Doc, "|", `\|`))
			}
		}
	}
	return b.Bytes()
}

// inOrder sorts types by the place where they first appear: a mapping before what is in it.
func inOrder(types []TypeDoc, paths map[string]string) []TypeDoc {
	out := slices.Clone(types)
	slices.SortStableFunc(out[1:], func(a, b TypeDoc) int { return strings.Compare(paths[a.Name], paths[b.Name]) })
	return out
}

func childPath(parent string, f FieldDoc) string {
	path := f.Key
	if parent != "The document" {
		path = parent + "." + f.Key
	}
	if strings.HasPrefix(f.Type, "list[") {
		path += "[]"
	}
	return path
}

func heading(path string) string {
	if strings.Contains(path, " ") {
		return path
	}
	return "`" + path + "`"
}

func requiredNote(f FieldDoc) string {
	if f.Required {
		return ", required"
	}
	return ""
}

// problemIndex lists every code.
func problemIndex() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, generated, "inventory/codes.go")
	b.WriteString("# Problems of an inventory\n\nEvery problem has a code that never changes its meaning. `plinth explain CODE` prints its page on the terminal.\n")
	topic := ""
	for _, d := range CodeDocs() {
		if d.Topic != topic {
			topic = d.Topic
			fmt.Fprintf(&b, "\n## %s\n\n", strings.TrimSuffix(topic, "."))
		}
		fmt.Fprintf(&b, "- [%s](%s.md) %s\n", d.Code, d.Code, firstSentence(d.Doc))
	}
	return b.Bytes()
}

func firstSentence(s string) string {
	if first, _, ok := strings.Cut(s, ". "); ok {
		return first + "."
	}
	return s
}

// problemPage is the page of one code, with every bad file that shows it.
func problemPage(d CodeDoc, files []badFile) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, generated, "inventory/codes.go")
	fmt.Fprintf(&b, "# %s %s\n\n%s\n", d.Code, d.Name, wrap(d.Doc, 118))
	for _, f := range files {
		if !strings.HasSuffix(f.expect, "["+string(d.Code)+"]") {
			continue
		}
		_, problems := Load(Document{"inventory.yaml", shown(f.Data)})
		fmt.Fprintf(&b, "\n```yaml\n%s```\n\n```text\n%s\n```\n", shown(f.Data), problems)
	}
	b.WriteString("\n[All problems](README.md)\n")
	return b.Bytes()
}

// shown is a bad file without the comments that say what to expect.
func shown(data []byte) []byte {
	return bytes.TrimLeft(suggestLine.ReplaceAll(expectLine.ReplaceAll(data, nil), nil), "\n")
}

// wrap breaks text into lines.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > width {
			b.WriteByte('\n')
			column = 0
		} else if column > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
