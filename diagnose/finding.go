package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of the objects of findings.
const (
	KindAgent      = "agent"
	KindController = "controller"
	KindInventory  = "inventory"
	KindMachine    = "machine"
	KindNode       = "node"
	KindPods       = "pods"
	KindPool       = "pool"
	KindService    = "service"
	KindVIP        = "vip"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Of      string `json:"of,omitempty"` // the rack of a machine, the Services of a VIP
	Reason  string `json:"reason"`       // as plinth explain knows it
	Message string `json:"message"`
}

// String prints the finding for an operator.
func (f Finding) String() string {
	if f.Kind == KindInventory {
		return f.Message // a sentence, or a problem with its place
	}
	text := f.Kind
	if f.Name != "" {
		text += " " + f.Name
	}
	if f.Of != "" {
		text += " (" + f.Of + ")"
	}
	if f.Kind == KindService {
		text += ": " + f.Reason
	}
	if verb, _, _ := strings.Cut(f.Message, " "); slices.Contains([]string{"has", "is", "gets"}, verb) {
		return text + " " + f.Message
	}
	return text + ": " + f.Message
}

// countOf is a number of things, in words.
func countOf(n int, what string) string {
	return counted(n, what, what+"s")
}

// someOf names the first of many.
func someOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
