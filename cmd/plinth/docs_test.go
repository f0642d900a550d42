package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	link      = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// pages are what people read first.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../../README.md", "../../docs/tutorial/*.md", "../../docs/guides/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no file: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out[file] = string(text)
		}
	}
	return out
}

func TestInventoriesInTheDocsHaveNoProblem(t *testing.T) {
	found := 0
	for file, text := range pages(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(block[1], "kind: Inventory") {
				continue
			}
			found++
			if _, problems := inventory.Load(inventory.Document{Source: file, Data: []byte(block[1])}); len(problems) > 0 {
				t.Errorf("%v in\n%s", problems, block[1])
			}
		}
	}
	if found == 0 {
		t.Error("there is no inventory in the docs: this test says nothing")
	}
}

func TestLinksInThePagesLeadSomewhere(t *testing.T) {
	for file, text := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), l[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
