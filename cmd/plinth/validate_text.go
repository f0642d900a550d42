package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// writeText prints problems like a compiler: what, where, the line with a
// caret under it, and help.
func writeText(out io.Writer, report report) error {
	var text bytes.Buffer
	lines := map[string]*document.Lines{}
	for _, d := range report.edit.Documents {
		lines[d.Source] = d.Lines()
	}
	for _, p := range report.problems {
		writeProblem(&text, p, lines[p.Source])
	}
	text.WriteString(report.summary() + "\n")
	if others := counted(report.edit.PassedOver); len(others) > 0 {
		text.WriteString("passed over: " + strings.Join(others, ", ") + "\n")
	}
	_, err := out.Write(text.Bytes())
	return err
}

// summary is the last line.
func (r report) summary() string {
	count := countOf(len(r.problems.Errors()), "error") + " and " + countOf(len(r.problems.Warnings()), "warning")
	if r.inventory == nil {
		return "not valid: " + count
	}
	inv := r.inventory
	text := fmt.Sprintf("valid: inventory %s with %s, %s, %s and %s", inv.Name, countOf(len(inv.Racks), "rack"),
		countOf(inv.Size(), "machine"), countOf(len(inv.Routers), "router"), countOf(len(inv.Pools), "pool"))
	if n := len(r.problems.Warnings()); n > 0 {
		text += "; " + countOf(n, "warning")
	}
	return text
}

// counted sorts words, and says once how often each is there.
func counted(words []string) (out []string) {
	times := map[string]int{}
	for _, w := range words {
		times[w]++
	}
	for _, w := range slices.Sorted(maps.Keys(times)) {
		if n := times[w]; n > 1 {
			w = fmt.Sprintf("%s (%d)", w, n)
		}
		out = append(out, w)
	}
	return out
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// writeProblem prints one problem and an empty line. What may be a password
// stays out of terminals and build logs. lines are those of its document, nil where it is about none.
func writeProblem(buffer *bytes.Buffer, problem inventory.Problem, lines *document.Lines) {
	fmt.Fprintf(buffer, "%s[%s]: ", problem.Severity, problem.Code)
	if problem.Path != "" {
		buffer.WriteString(problem.Path + " ")
	}
	buffer.WriteString(problem.Message + "\n")
	margin := strings.Repeat(" ", len(fmt.Sprint(problem.Line)))
	if at := problem.Position().String(); at != "" {
		fmt.Fprintf(buffer, "%s--> %s\n", margin, at)
	}
	if line, column, ok := lines.At(problem.Line, problem.Column); ok {
		fmt.Fprintf(buffer, "%s |\n%d | %s\n", margin, problem.Line, line)
		if column > 0 {
			fmt.Fprintf(buffer, "%s | %s\n", margin, caret(line, column, problem.Value))
		}
	}
	note := func(what, text string) {
		if text != "" {
			fmt.Fprintf(buffer, "%s = %s: %s\n", margin, what, strings.ReplaceAll(text, "\n", "\n"+margin+"     "))
		}
	}
	note("accepted", problem.Accepted)
	note("help", problem.Help())
	for _, r := range problem.Related {
		note("see also", r.String())
	}
	note("more", "plinth explain "+string(problem.Code))
	buffer.WriteByte('\n')
}

// caret underlines the value, or points at where it begins. Tabs stay tabs, so
// that it stands right however wide they are.
func caret(line string, column int, value string) string {
	before := []rune(line)[:min(max(column-1, 0), utf8.RuneCountInString(line))]
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	width := 1
	if rest := string([]rune(line)[len(before):]); value != "" && strings.HasPrefix(strings.TrimLeft(rest, `"'`), value) {
		width = utf8.RuneCountInString(value) + 2*(len(rest)-len(strings.TrimLeft(rest, `"'`)))
	}
	return string(before) + strings.Repeat("^", width)
}
