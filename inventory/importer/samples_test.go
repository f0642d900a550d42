package importer

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"plinth.dev/plinth/inventory"
)

// fenced are the blocks of YAML in a page of documentation.
var fenced = regexp.MustCompile("(?ms)^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```")

// samplesIn are the documents of a module that have a text in them, such as an API group.
func samplesIn(t *testing.T, module, with string) (docs []inventory.Document) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return samplesBelow(t, strings.TrimSpace(string(out)), with)
}

// samplesBelow are the documents of a folder that have a text in them: its YAML files, the blocks of its pages, and the files of its archives.
func samplesBelow(t *testing.T, dir, with string) (docs []inventory.Document) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, name := []byte(nil), path[len(dir)+1:]
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			if data, err = os.ReadFile(path); err == nil {
				docs = appendSample(docs, with, name, string(data))
			}
		case ".md", ".rst":
			if data, err = os.ReadFile(path); err == nil {
				for i, block := range blocksOf(string(data)) {
					docs = appendSample(docs, with, fmt.Sprintf("%s#%d", name, i+1), block)
				}
			}
		case ".txtar":
			if data, err = os.ReadFile(path); err == nil {
				for _, f := range txtar.Parse(data).Files {
					docs = appendSample(docs, with, name+"/"+f.Name, string(f.Data))
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// blocksOf are the blocks of YAML in a page: between fences, or below a directive of reStructuredText, as far as it is indented.
func blocksOf(page string) (all []string) {
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		all = append(all, block[1])
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

// appendSample adds what is an object of Kubernetes, with a text in it, and no template of a chart.
func appendSample(docs []inventory.Document, with, name, text string) []inventory.Document {
	if !strings.Contains(strings.ReplaceAll(text, `"`, ""), with) || strings.Contains(text, "{{") || strings.Contains(text, "kind: CustomResourceDefinition") {
		return docs
	}
	return append(docs, inventory.Document{Source: name, Data: []byte(text)})
}

func TestTheLawHoldsForAllThatMetalLBShips(t *testing.T) {
	if objects := lawOver(t, "metallb", samplesIn(t, "go.universe.tf/metallb", "apiVersion: "+metalLB+"/")); objects < 115 {
		t.Errorf("only %d objects were found", objects)
	}
}

// lawOver holds the import of each document against the law, and returns how many objects they have that the source reads.
func lawOver(t *testing.T, source string, docs []inventory.Document) (objects int) {
	t.Helper()
	for _, doc := range docs {
		t.Run(doc.Source, func(t *testing.T) {
			options := Options{Sources: []string{source}}
			read, notes := readObjects([]inventory.Document{doc})
			for _, o := range read {
				if slices.ContainsFunc(KindsOf(source), func(k Kind) bool { return k.Kind == o.kind && k.Group == o.group() }) {
					objects++
				}
			}
			if notes.Failed() { // a block that is broken off
				if text, again := Import(options, doc); text != nil || !again.Failed() {
					t.Errorf("%v, and written is\n%s", again, text)
				}
				return
			}
			checkLaw(t, options, doc)
		})
	}
	return objects
}
