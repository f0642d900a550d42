package importer

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

// fenced are the blocks of YAML in a page of documentation.
var fenced = regexp.MustCompile("(?ms)^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```")

// samplesIn are the documents of a module that speak of an API group: its YAML files, and the blocks of its pages.
func samplesIn(t *testing.T, module, group string) (docs []inventory.Document) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, name := []byte(nil), path[len(dir)+1:]
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			if data, err = os.ReadFile(path); err == nil {
				docs = appendSample(docs, group, name, string(data))
			}
		case ".md", ".rst":
			if data, err = os.ReadFile(path); err == nil {
				for i, block := range fenced.FindAllStringSubmatch(string(data), -1) {
					docs = appendSample(docs, group, fmt.Sprintf("%s#%d", name, i+1), block[1])
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

// appendSample adds a text that has an object of the group, and no template of a chart.
func appendSample(docs []inventory.Document, group, name, text string) []inventory.Document {
	if !strings.Contains(text, "apiVersion: "+group+"/") || strings.Contains(text, "{{") || strings.Contains(text, "kind: CustomResourceDefinition") {
		return docs
	}
	return append(docs, inventory.Document{Source: name, Data: []byte(text)})
}

func TestTheLawHoldsForAllThatMetalLBShips(t *testing.T) {
	objects := 0
	for _, doc := range samplesIn(t, "go.universe.tf/metallb", metalLB) {
		t.Run(doc.Source, func(t *testing.T) {
			options := Options{Sources: []string{"metallb"}}
			read, notes := readObjects([]inventory.Document{doc})
			objects += len(read)
			if notes.Failed() { // a block that is broken off
				if text, again := Import(options, doc); text != nil || !again.Failed() {
					t.Errorf("%v, and written is\n%s", again, text)
				}
				return
			}
			checkLaw(t, options, doc)
		})
	}
	if objects < 100 {
		t.Errorf("only %d objects were found", objects)
	}
}
