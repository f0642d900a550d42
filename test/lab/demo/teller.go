package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// teller writes the story for a person who reads along.
type teller struct {
	out   io.Writer
	bold  func(string) string
	faint func(string) string
	begun time.Time
	step  int
	facts [][2]string
}

// newTeller writes in colour where a terminal shows it and nobody has asked for
// none (https://no-color.org).
func newTeller(out io.Writer) *teller {
	plain := func(s string) string { return s }
	t := &teller{out: out, bold: plain, faint: plain, begun: time.Now()}
	if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			t.bold = func(s string) string { return "\033[1m" + s + "\033[0m" }
			t.faint = func(s string) string { return "\033[2m" + s + "\033[0m" }
		}
	}
	return t
}

// title begins a step.
func (t *teller) title(format string, args ...any) {
	t.step++
	text := fmt.Sprintf("%d. %s", t.step, fmt.Sprintf(format, args...))
	fmt.Fprintf(t.out, "\n%s %s\n", t.bold(text), t.faint(t.clock()))
}

func (t *teller) clock() string {
	return fmt.Sprintf("[%.0f s]", time.Since(t.begun).Seconds())
}

// say writes a sentence.
func (t *teller) say(format string, args ...any) {
	fmt.Fprintf(t.out, "   "+format+"\n", args...)
}

// quote shows what somebody else said, after the command that made it say so.
func (t *teller) quote(command, text string) {
	if command != "" {
		fmt.Fprintf(t.out, "   %s\n", t.bold("$ "+command))
	}
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintf(t.out, "   %s %s\n", t.faint("|"), strings.TrimRight(line, "\r\n"))
	}
}

// fact keeps a line for the summary.
func (t *teller) fact(what, format string, args ...any) {
	t.facts = append(t.facts, [2]string{what, fmt.Sprintf(format, args...)})
}

// summary writes the facts as a table.
func (t *teller) summary() {
	fmt.Fprintf(t.out, "\n%s\n", t.bold("Summary"))
	w := tabwriter.NewWriter(t.out, 0, 0, 3, ' ', 0)
	for _, f := range t.facts {
		fmt.Fprintf(w, "   %s\t%s\n", f[0], f[1])
	}
	w.Flush()
}

// head returns the first n lines of a text, and says how many are left out.
func head(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= n {
		return text
	}
	return fmt.Sprintf("%s\n... %d more lines", strings.Join(lines[:n], "\n"), len(lines)-n)
}
