package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	link      = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	inHeading = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// pages are what people read first.
func pages(t *testing.T) map[string]string {
	t.Helper()
	return texts(t, "../../README.md", "../../docs/tutorial/*.md", "../../docs/guides/*.md")
}

func texts(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range patterns {
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
			if _, problems := document.Load(document.Document{Source: file, Data: []byte(block[1])}); len(problems) > 0 {
				t.Errorf("%v in\n%s", problems, block[1])
			}
		}
	}
	if found == 0 {
		t.Error("there is no inventory in the docs: this test says nothing")
	}
}

// anchors are the fragments that lead to the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		words := inHeading.ReplaceAllString(strings.ToLower(h[1]), "$1")
		base := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.TrimSpace(words), ""), " ", "-")
		name := base
		for n := 1; out[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		out[name] = true
	}
	return out
}

func TestAnchorsAreThoseThatGitHubMakes(t *testing.T) {
	got := anchors("# Pod routes\n```sh\n# no heading\n```\n## `plinth-vxlan`, and MTU\n## Why?\n### Why?\n## [Over_all](x.md) in - all\n")
	want := []string{"pod-routes", "plinth-vxlan-and-mtu", "why", "why-1", "over_all-in---all"}
	for _, a := range want {
		if !got[a] {
			t.Errorf("%s is not among %v", a, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLinksInTheDocsLeadSomewhere(t *testing.T) {
	for file, text := range texts(t, "../../README.md", "../../docs/*/*.md", "../../docs/reference/problems/*.md") {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			to := file
			if l[1] != "" {
				to = filepath.Join(filepath.Dir(file), l[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if l[2] == "" {
				continue
			}
			if page, err := os.ReadFile(to); err != nil || !anchors(string(page))[l[2]] {
				t.Errorf("%s: %s has no heading for #%s: %v", file, to, l[2], err)
			}
		}
	}
}
