package docs

import (
	"embed"
	"regexp"
	"slices"
	"strings"
)

//go:embed reference/agent.md reference/cloud-provider.md reference/doctor.md reference/doctor-machine.md reference/import.md reference/in-force.md reference/metrics.md reference/names.md reference/reasons.md reference/services.md
var pages embed.FS

// Word is a row of a table of a page: what a name means.
type Word struct {
	Name    string
	Kind    string // the heading of its column: reason, cause, annotation …
	Page    string // such as reference/reasons.md
	Section string // the heading that the table stands under
	Facts   []Fact // what other columns say, such as the labels of a metric
	Text    string // what it means, without links
}

// Fact is a cell of a row, with the heading of its column.
type Fact struct{ Column, Text string }

// Words returns the entries in the tables of the pages, in their order.
func Words() (out []Word) {
	entries, err := pages.ReadDir("reference")
	if err != nil {
		panic(err) // it was embedded
	}
	for _, entry := range entries {
		page := "reference/" + entry.Name()
		text, err := pages.ReadFile(page)
		if err != nil {
			panic(err)
		}
		words := wordsOf(page, string(text))
		if entry.Name() == "import.md" { // its other tables have names of other programs
			words = slices.DeleteFunc(words, func(w Word) bool { return w.Kind != "code" })
		}
		out = append(out, words...)
	}
	return out
}

// wordsOf reads the tables of a page.
func wordsOf(page, text string) (out []Word) {
	section := ""
	var columns []string // of the table that the line is in
	for line := range strings.Lines(text) {
		cells := cellsOf(line)
		switch {
		case strings.HasPrefix(line, "#"):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case cells == nil:
			columns = nil
		case columns == nil:
			columns = cells
		case strings.Trim(cells[0], "-") != "":
			out = append(out, row(Word{Page: page, Section: section}, columns, cells)...)
		}
	}
	return out
}

// link is a link, whose words are wanted without the address.
var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// cellsOf are the cells of a line of a table; nil where it is none.
func cellsOf(line string) []string {
	inner, begins := strings.CutPrefix(strings.TrimSpace(line), "|")
	inner, ends := strings.CutSuffix(inner, "|")
	if !begins || !ends {
		return nil
	}
	const escaped = "\x00"
	cells := strings.Split(strings.ReplaceAll(inner, `\|`, escaped), "|")
	for i, c := range cells {
		cells[i] = link.ReplaceAllString(strings.TrimSpace(strings.ReplaceAll(c, escaped, "|")), "$1")
	}
	return cells
}

// row adds a word for each name in the first cell.
func row(word Word, columns, cells []string) (out []Word) {
	word.Kind = columns[0]
	for i, cell := range cells[1:] {
		switch {
		case cell == "" || i+1 >= len(columns):
		case says.MatchString(columns[i+1]):
			word.Text = cell
		default:
			word.Facts = append(word.Facts, Fact{columns[i+1], cell})
		}
	}
	for _, name := range namesIn(cells[0]) {
		word.Name = name
		out = append(out, word)
	}
	return out
}

// says matches the headings of columns that say what a word means; others have one fact of it.
var says = regexp.MustCompile(`^(|content|answer|else|.*\bmean.*|what it keeps true|what it tells)$`)

// leading are the names that a cell begins with.
var leading = regexp.MustCompile("^(?:`[^` ]+`(?:, |$))+|^`[^` ]+`")

func namesIn(cell string) (out []string) {
	for _, part := range strings.Split(leading.FindString(cell), ", ") {
		if name := strings.Trim(part, "`"); name != "" {
			out = append(out, name)
		}
	}
	return out
}
