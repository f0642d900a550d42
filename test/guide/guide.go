// Package guide reads pages of the docs as a reader follows them: the commands of guides that are to be typed, and the names
// that tables of the reference explain.
package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plinth.dev/plinth/docs"
)

// Read returns the text of a guide. root is the folder of the source tree.
func Read(root, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs/guides", name))
	return string(text), err
}

// Blocks returns the blocks of commands of a page, or of a part of one: those in the language console.
func Blocks(page string) (blocks []string) {
	for i, block := range strings.Split(page, "```") {
		if code, ok := strings.CutPrefix(block, "console\n"); ok && i%2 == 1 {
			blocks = append(blocks, code)
		}
	}
	return blocks
}

// Lines returns the lines that are to be typed, of all blocks of commands.
func Lines(page string) (lines []string) {
	for _, block := range Blocks(page) {
		lines = append(lines, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return lines
}

// Section returns the part of a page below the one heading of the second level that begins with some words, up to the next
// heading of that level.
func Section(page, words string) (string, error) {
	var found []string
	for _, section := range strings.Split(page, "\n## ")[1:] {
		if strings.HasPrefix(section, words) {
			found = append(found, section)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the guide has %d headings that begin with %q, want one", len(found), words)
	}
	return found[0], nil
}

// OfAgents are the reasons why a VIP or a pod CIDR is not announced that a machine's agent alone knows, and its status tells.
var OfAgents = []string{"MachineDrained", "PodCIDROutsideNetwork", "ProxyRulesPending"}

// Unseen returns the names that the tables below a heading of a page of docs/reference explain, without those that were seen.
func Unseen(page, heading string, seen []string) (unseen []string, err error) {
	explained := 0
	for _, word := range docs.Words() {
		if word.Page != "reference/"+page || word.Section != heading {
			continue
		}
		explained++
		if !slices.Contains(seen, word.Name) {
			unseen = append(unseen, word.Name)
		}
	}
	if explained == 0 {
		return nil, fmt.Errorf("%s has no names below %q", page, heading)
	}
	return unseen, nil
}
