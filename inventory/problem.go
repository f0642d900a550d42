package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity is the weight of a problem: an error stops an inventory from being accepted.
type Severity string

// The severities of a problem.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// NotShown stands in a [Problem], or in a line, for what may be a password.
const NotShown = "(not shown)"

// Position is a place in a document. Lines and columns count from 1, columns in
// characters; 0 means that the place is not known.
type Position struct {
	Source string
	Line   int
	Column int
}

// String prints source:line:column, without the parts that are not known.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.Source
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.Source, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
}

// Compare orders positions by source, line and column.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Source, o.Source), cmp.Compare(p.Line, o.Line), cmp.Compare(p.Column, o.Column))
}

// Problem is one thing that is wrong with an inventory, and how to put it right.
type Problem struct {
	Source     string
	Line       int
	Column     int
	Severity   Severity
	Code       Code
	Path       string // of the field, such as spec.racks[r01].machines[w1].unit
	Message    string
	Value      string     // as it was written
	Accepted   string     // what would have been
	Suggestion string     // what was probably meant
	Example    bool       // the suggestion is one of many that would do
	Related    []Position // other places that have to do with it
}

// Position returns the place of the problem.
func (p Problem) Position() Position { return Position{p.Source, p.Line, p.Column} }

// String prints the problem in one line:
// source:line:column: error[P0123]: path: message; got "value"; accepted: …; did you mean "…"?; see also source:line:column.
// Of a suggestion that is one of many it says: for example "…"
func (p Problem) String() string {
	var text strings.Builder
	if at := p.Position().String(); at != "" {
		text.WriteString(at + ": ")
	}
	fmt.Fprintf(&text, "%s[%s]: ", p.Severity, p.Code)
	if p.Path != "" {
		text.WriteString(p.Path + ": ")
	}
	text.WriteString(p.Message)
	if p.Value != "" {
		fmt.Fprintf(&text, "; got %q", p.Value)
	}
	if p.Accepted != "" {
		text.WriteString("; accepted: " + p.Accepted)
	}
	if p.Suggestion != "" {
		text.WriteString("; " + p.help(strconv.Quote(p.Suggestion)))
	}
	for _, r := range p.Related {
		text.WriteString("; see also " + r.String())
	}
	return text.String()
}

// Help returns a hint: the value that was probably meant, or one that would do; empty where there is none.
func (p Problem) Help() string {
	if p.Suggestion == "" {
		return ""
	}
	return p.help(p.Suggestion)
}

func (p Problem) help(suggestion string) string {
	switch {
	case p.Example && strings.Contains(suggestion, "\n"):
		return "for example\n" + suggestion
	case p.Example:
		return "for example " + suggestion
	}
	return "did you mean " + suggestion + "?"
}

// Problems is a list of problems, sorted by place.
type Problems []Problem

// Errors returns those that stop the inventory from being taken up.
func (ps Problems) Errors() Problems { return ps.of(Error) }

// Warnings returns those that do not.
func (ps Problems) Warnings() Problems { return ps.of(Warning) }

func (ps Problems) of(s Severity) Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity == s {
			out = append(out, p)
		}
	}
	return out
}

// Err is nil where there is no error, whatever the warnings; else it says all of them.
func (ps Problems) Err() error {
	errs := ps.Errors()
	if len(errs) == 0 {
		return nil
	}
	return errors.New(errs.String())
}

// String prints one problem a line.
func (ps Problems) String() string {
	return strings.Join(Strings(ps), "\n")
}

// Sorted returns the problems by place, then code, path and message.
func (ps Problems) Sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message),
		)
	})
	return ps
}

// RackPath returns the path by which problems name a rack.
func RackPath(rack string) string { return "spec.racks[" + rack + "]" }

// MachinePath returns the path by which problems name a machine.
func MachinePath(rack, machine string) string { return RackPath(rack) + ".machines[" + machine + "]" }

// namesTold is the number of names that a problem lists: with the text around them they fit into an Event.
const namesTold = 5

// Abridged joins the first five names and counts the rest.
func Abridged(names []string) string {
	if len(names) <= namesTold {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namesTold], ", "), len(names)-namesTold)
}
