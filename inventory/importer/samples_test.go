package importer

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"plinth.dev/plinth/inventory/document"
)

// fenced are the blocks of YAML in a page of documentation.
var fenced = regexp.MustCompile("(?ms)^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```")

// folderOf is where a module of go.mod is.
func folderOf(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// samplesBelow are the documents of a folder that fit: its YAML files, the blocks of its pages, the files of its archives, and what stands in Go files.
func samplesBelow(t *testing.T, dir string, fits func(text string) bool) (docs []document.Document) {
	t.Helper()
	add := func(name, text string) {
		if fits(strings.ReplaceAll(text, `"`, "")) && !strings.Contains(text, "{{") && !strings.Contains(text, "kind: CustomResourceDefinition") {
			docs = append(docs, document.Document{Source: name, Data: []byte(text)})
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".md", ".rst", ".txtar", ".go"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch name := filepath.ToSlash(path[len(dir)+1:]); filepath.Ext(path) {
		case ".yaml", ".yml":
			add(name, string(data))
		case ".md", ".rst":
			for i, block := range blocksOf(string(data)) {
				add(fmt.Sprintf("%s#%d", name, i+1), block)
			}
		case ".txtar":
			for _, f := range txtar.Parse(data).Files {
				add(name+"/"+f.Name, string(f.Data))
			}
		case ".go":
			for i, text := range textsIn(name, data) {
				add(fmt.Sprintf("%s#text-%d", name, i+1), text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// having is what fits a text, such as an API group.
func having(part string) func(string) bool {
	return func(text string) bool { return strings.Contains(text, part) }
}

// textsIn are the string literals of a Go file that have an object of Kubernetes in them.
func textsIn(name string, source []byte) (all []string) {
	if !strings.Contains(string(source), "apiVersion: ") {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil // of another version of Go, or a template
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, "apiVersion: ") {
				all = append(all, withoutIndent(slices.Collect(strings.Lines(text))))
			}
		}
		return true
	})
	return all
}

// blocksOf are the blocks of YAML in a page: between fences, or below a directive of reStructuredText, as far as it is indented.
func blocksOf(page string) (all []string) {
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		all = append(all, withoutIndent(slices.Collect(strings.Lines(block[1]))))
	}
	for _, rest := range strings.Split(page, ".. code-block:: yaml\n")[1:] {
		var lines []string
		for line := range strings.Lines(rest) {
			if strings.TrimSpace(line) != "" && line[0] != ' ' {
				break
			}
			lines = append(lines, line)
		}
		all = append(all, withoutIndent(lines))
	}
	return all
}

// withoutIndent takes away the blanks that the first line with text begins with, and all after a line that has fewer.
func withoutIndent(lines []string) string {
	var text strings.Builder
	indent := ""
	for _, line := range lines {
		switch bare := strings.TrimLeft(line, " "); {
		case strings.TrimSpace(line) == "":
			text.WriteString("\n")
			continue
		case text.Len() == strings.Count(text.String(), "\n"):
			indent = line[:len(line)-len(bare)]
		}
		rest, ok := strings.CutPrefix(line, indent)
		if !ok {
			break
		}
		text.WriteString(rest)
	}
	return text.String()
}

// together joins the documents of each folder, page and archive, as people apply them. What stands in Go is a configuration by itself.
func together(docs []document.Document) (all []document.Document) {
	at := map[string]int{}
	for _, doc := range docs {
		if _, unread := readObjects([]document.Document{doc}); unread.Failed() {
			continue
		}
		name, _, of := strings.Cut(doc.Source, "#")
		if strings.HasSuffix(name, ".go") {
			continue
		}
		if !of {
			name = path.Dir(name)
		}
		i, there := at[name]
		if !there {
			i = len(all)
			at[name] = i
			all = append(all, document.Document{Source: name + " together"})
		}
		all[i].Data = append(append(all[i].Data, "\n---\n"...), doc.Data...)
	}
	return all
}

// isRead reports whether a source reads an object.
func isRead(source string, o *object) bool {
	return slices.ContainsFunc(KindsOf(source), func(k Kind) bool { return k.Kind == o.kind && k.Group == o.group() })
}

// readBy are the documents that have an object in them which a source reads, and how many there are of these.
func readBy(source string, docs []document.Document) (out []document.Document, objects int) {
	for _, doc := range docs {
		read, _ := readObjects([]document.Document{doc}, source)
		read = slices.DeleteFunc(read, func(o *object) bool { return !isRead(source, o) })
		if objects += len(read); len(read) > 0 {
			out = append(out, doc)
		}
	}
	return out, objects
}

// lawOver holds the import of each document against the law, and returns how many have something that the source reads. Fewer than there were fail.
func lawOver(t *testing.T, source string, least int, docs []document.Document) {
	t.Helper()
	read, objects := readBy(source, docs)
	if t.Logf("%s reads %d documents with %d objects, of %d", source, len(read), objects, len(docs)); len(read) < least {
		t.Errorf("%s reads only %d documents of %d", source, len(read), least)
	}
	for _, doc := range read {
		t.Run(doc.Source, func(t *testing.T) {
			options := Options{Sources: []string{source}}
			if _, unread := readObjects([]document.Document{doc}, source); unread.Failed() { // a block that is broken off
				if text, again := Import(options, doc); text != nil || !again.Failed() {
					t.Errorf("%v, and written is\n%s", again, text)
				}
				return
			}
			checkLaw(t, options, doc)
		})
	}
}

// metalLBSamples are what MetalLB ships: its samples, pages and designs, and the configurations of its tests.
func metalLBSamples(t *testing.T) []document.Document {
	dir := folderOf(t, "go.universe.tf/metallb")
	docs := samplesBelow(t, dir, having("apiVersion: "+metalLB+"/"))
	for _, name := range []string{"internal/config/config_test.go", "internal/config/validation_test.go", "internal/config/validator_test.go", "internal/k8s/controllers/config_controller_test.go"} {
		source, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found, unknown := literalsIn(t, name, source)
		if len(unknown) > 40 { // those that its functions make
			t.Errorf("%s: %d objects are not understood: %v", name, len(unknown), unknown)
		}
		docs = append(docs, found...)
	}
	return docs
}

func TestTheLawHoldsForAllThatMetalLBShips(t *testing.T) {
	docs := metalLBSamples(t)
	lawOver(t, "metallb", 240, docs)
	lawOver(t, "metallb", 10, together(docs))
}

// kubernetesSamples are one object of each kind, with every field filled, of several versions.
func kubernetesSamples(t *testing.T) []document.Document {
	kinds := regexp.MustCompile(`(?m)^kind: (Node|Service|DaemonSet|Deployment|Pod|ConfigMap)$`)
	return samplesBelow(t, filepath.Join(folderOf(t, "k8s.io/api"), "testdata"), kinds.MatchString)
}

// TestTheLawHoldsForObjectsWithEveryField tries what is nobody's, for the sources that look at all such objects of a cluster.
func TestTheLawHoldsForObjectsWithEveryField(t *testing.T) {
	docs := kubernetesSamples(t)
	lawOver(t, "nodes", 5, docs)
	lawOver(t, "servicelb", 15, docs)
	lawOver(t, "kube-vip", 25, docs)
}
