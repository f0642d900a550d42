package document

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"plinth.dev/plinth/inventory"
)

// LineNotShown stands in the place of a line of which a part is no single word to be left out.
const LineNotShown = "(line not shown: it may hold a password)"

// Lines are the lines of a document as they may be shown in terminals and logs.
type Lines struct {
	text []string
	cuts []cuts // of each line
}

// cuts are the parts of a line that are left out.
type cuts struct {
	whole bool
	parts []columns
}

// columns are a part of a line, in characters from 0; the end is not in it.
type columns struct{ from, to int }

var (
	// lineBreak matches the end of a line in YAML 1.1, whose lines the positions of nodes count.
	lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")
	comment   = regexp.MustCompile(`(?:^|\s)#\s*(.*)$`)
)

// Lines are the lines of the document.
func (d Document) Lines() *Lines {
	lines := &Lines{text: lineBreak.Split(string(d.Data), -1)}
	lines.cuts = make([]cuts, len(lines.text))
	pages, err := readPages(d)
	var nodes []*yaml.Node
	for _, p := range pages {
		walk(p.root, trail{}, func(n *yaml.Node, _ *trail) { nodes = append(nodes, n) })
	}
	read := 0 // lines before the one where it may not be YAML any more
	if len(nodes) > 0 {
		read = nodes[len(nodes)-1].Line - 1
	}
	nodes = append(nodes, &yaml.Node{Line: len(lines.text) + 1, Column: 1})
	types := typesOf(pages)
	for i, n := range nodes[:len(nodes)-1] {
		if types.hides(n) {
			lines.cut(n, nodes[i+1])
		}
	}
	if err != nil { // what is not read has no types
		for i := read; i < len(lines.cuts); i++ {
			lines.cuts[i].whole = true
		}
	}
	lines.cutComments()
	return lines
}

// cut leaves a node out, before the next one of the document: the word that it is, or else all lines that it may be on. Of a
// mapping and a list it leaves out what is before its first item.
func (l *Lines) cut(node, next *yaml.Node) {
	if part, ok := l.spelt(node); ok {
		c := &l.cuts[node.Line-1]
		c.parts = append(c.parts, part)
		return
	}
	last := next.Line
	if before := l.runes(last); strings.Trim(string(before[:min(next.Column-1, len(before))]), " \t-?{[") == "" && last > node.Line {
		last-- // the next one begins its line
	}
	for i := node.Line; i <= min(last, len(l.cuts)); i++ {
		l.cuts[i-1].whole = true
	}
}

// spelt returns the columns of a node that is written in one line exactly as it is read, without a tag or an anchor.
func (l *Lines) spelt(node *yaml.Node) (columns, bool) {
	text := node.Value
	switch {
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return columns{}, false
	case node.Kind == yaml.AliasNode:
		text = "*" + text
	case node.Kind != yaml.ScalarNode:
		text = ""
	case node.Style&yaml.DoubleQuotedStyle != 0:
		text = `"` + text + `"`
	case node.Style&yaml.SingleQuotedStyle != 0:
		text = "'" + text + "'"
	}
	line, from := l.runes(node.Line), node.Column-1
	if from < 0 || from > len(line) || !strings.HasPrefix(string(line[from:]), text) || text == "" && from < len(line) && strings.ContainsRune("!&", line[from]) {
		return columns{}, false // it has a tag or an anchor, or goes on at the next line
	}
	return columns{from, from + len([]rune(text))}, true
}

// cutComments leaves out comments, and what seems to be one, in quotes.
func (l *Lines) cutComments() {
	for i, text := range l.text {
		if at := comment.FindStringSubmatchIndex(text); at != nil {
			l.cuts[i].parts = append(l.cuts[i].parts, columns{len([]rune(text[:at[2]])), len([]rune(text))})
		}
	}
}

// runes are the characters of a line, counted from 1; none where there is no such line.
func (l *Lines) runes(number int) []rune {
	if number < 1 || number > len(l.text) {
		return nil
	}
	return []rune(l.text[number-1])
}

// At is a line as it may be shown, counted from 1, and where a column of it is there; 0 where the line is left out as a
// whole. It reports whether there is a line of that number. No Lines have none.
func (l *Lines) At(number, column int) (text string, at int, ok bool) {
	if l == nil || number < 1 || number > len(l.text) || number == len(l.text) && l.text[number-1] == "" {
		return "", 0, false
	}
	if l.cuts[number-1].whole {
		return LineNotShown, 0, true
	}
	parts := slices.Clone(l.cuts[number-1].parts)
	slices.SortFunc(parts, func(a, b columns) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	line, done := l.runes(number), 0
	at = column
	for _, part := range parts {
		part.from = max(part.from, done) // what seems to be a comment may begin in quotes
		if part.from >= part.to {
			continue
		}
		out.WriteString(string(line[done:part.from]) + inventory.NotShown)
		done = part.to
		switch grown := len(inventory.NotShown) - (part.to - part.from); {
		case column > part.to:
			at += grown
		case column > part.from+1:
			at -= column - part.from - 1
		}
	}
	return out.String() + string(line[done:]), at, true
}
