package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// tables are the templates of the tables, by part.
//
//go:embed tables
var tables embed.FS

// proxyModes are the modes of kube-proxy that tables have rows for.
func proxyModes() []string { return []string{"nftables", "iptables"} }

// each lists what a row has a column for.
func each(columns ...string) []string { return columns }

// words has a figure's name as words: "iptables, `Local`, Kubernetes 1.35".
var words = strings.NewReplacer("/minSync=", ", `minSyncPeriod: ", "s/beside=1000", "s`, 1,000 Services besides", "1m30s", "90s`", "5s/policy=Local", "5s`, `Local`", "/policy=Local", ", `Local`", "/kubernetes=", ", Kubernetes ",
	"lab/", "lab, ", "real/", "real machines, ", "/both", ", FRR and BIRD", "/frr", ", FRR", "/bird", ", BIRD",
	"deployment-", "Deployment, ", "daemonset-", "DaemonSet, ", "local", "`Local`", "cluster", "`Cluster`")

// end closes the place of a table.
const end = "<!-- /evidence -->\n"

// begin opens the place of a part's table.
func begin(p part) string {
	return fmt.Sprintf("<!-- evidence: make evidence PARTS=%s writes this -->\n", p.name)
}

// render prints the table of a part.
func render(p part, r record) (string, error) {
	t, err := template.New(p.name+".md").Funcs(template.FuncMap{"each": each, "lower": strings.ToLower, "modes": proxyModes, "words": words.Replace, "older": func() string { return older }}).ParseFS(tables, "tables/"+p.name+".md")
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s\n\n", &r.origin)
	if err := t.Execute(&text, r); err != nil {
		return "", err
	}
	return text.String(), nil
}

// place puts the table of a part in its place on a page.
func place(page string, p part, table string) (string, error) {
	before, rest, ok := strings.Cut(page, begin(p))
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("%s has no place for the table of %s, which is between %q and %q", p.page, p.name, strings.TrimSpace(begin(p)), strings.TrimSpace(end))
	}
	return before + begin(p) + table + end + after, nil
}

// renderAll writes the tables of all parts that have a record into their pages.
func renderAll(root string) error {
	var failed []error
	for _, p := range parts {
		r, there, err := read(filepath.Join(root, p.record()))
		if err == nil && there {
			err = rewrite(root, p, r)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func rewrite(root string, p part, r record) error {
	file := filepath.Join(root, p.page)
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	table, err := render(p, r)
	if err != nil {
		return err
	}
	written, err := place(string(page), p, table)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(written), 0o644)
}

// templates lists the parts that have a template.
func templates() ([]string, error) {
	files, err := fs.Glob(tables, "tables/*.md")
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".md")
	}
	slices.Sort(files) // onlink comes before onlink-many, and onlink-many.md before onlink.md
	return files, err
}
