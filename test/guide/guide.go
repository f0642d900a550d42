// Package guide reads the guides in docs/guides as a reader follows them: the commands that are to be typed.
package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
