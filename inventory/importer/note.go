package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// Severity is the weight of a note: an error stops the import.
type Severity string

// The severities of a note.
const (
	Error Severity = "error" // something could not be read, or is not valid where it came from
	Told  Severity = "note"  // something is not in the inventory, or is a guess
)

// Note is one thing that is not in the inventory as it was in the source.
type Note struct {
	inventory.Position
	Severity Severity
	Code     Code
	Object   string // such as BGPPeer/tor; empty: of no object
	Path     string // of the field in it
	Message  string
	of       *object
	whole    bool // it is of all of the object: nothing of that is in the inventory
}

// String prints the note in one line: source:line:column: note[I0003]: BGPPeer/tor spec.vrf: message.
func (n Note) String() string {
	var text strings.Builder
	if at := n.Position.String(); at != "" {
		text.WriteString(at + ": ")
	}
	fmt.Fprintf(&text, "%s[%s]: ", n.Severity, n.Code)
	if about := strings.TrimSpace(n.Object + " " + n.Path); about != "" {
		text.WriteString(about + ": ")
	}
	text.WriteString(n.Message)
	return strings.Map(printable, text.String())
}

// Notes is a list of notes, sorted by place.
type Notes []Note

// Failed reports whether a note is an error.
func (ns Notes) Failed() bool {
	return slices.ContainsFunc(ns, func(n Note) bool { return n.Severity == Error })
}

func (ns Notes) sort() {
	slices.SortStableFunc(ns, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code))
	})
}
