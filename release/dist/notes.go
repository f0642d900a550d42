package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// heading begins a version's section of the changelog.
var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\].*$`)

// fileLink is a link without a scheme, that of a file.
var fileLink = regexp.MustCompile(`\]\(([\w./-]+(?:#[\w-]*)?)\)`)

// notes writes what the changelog says of this version. One that is not released yet has what
// is said of the next.
func (o options) notes() error {
	log, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section, err := cut(string(log), o.number())
	if err != nil {
		return err
	}
	return o.write("NOTES.md", []byte("# Plinth "+o.version+"\n\n"+o.linked(section)+"\n"))
}

// linked has links to files of the repository lead to those of this version: notes are read elsewhere.
func (o options) linked(text string) string {
	return fileLink.ReplaceAllString(text, "]("+strings.TrimSuffix(o.source, "/")+"/"+o.version+"/$1)")
}

// cut returns the section of a version, without its heading.
func cut(log, number string) (string, error) {
	wanted := number
	if strings.Contains(number, "-") {
		wanted = "Unreleased"
	}
	for _, at := range heading.FindAllStringSubmatchIndex(log, -1) {
		if log[at[2]:at[3]] != wanted {
			continue
		}
		rest := log[at[1]:]
		if next := heading.FindStringIndex(rest); next != nil {
			rest = rest[:next[0]]
		}
		if rest = strings.TrimSpace(rest); rest == "" {
			return "", fmt.Errorf("CHANGELOG.md says nothing of %s", wanted)
		}
		return rest, nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q", "## ["+wanted+"]")
}
