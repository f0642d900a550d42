package document

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// advised reads a value. Of what the reader suggests in the place of a value that it refuses, only what it would take itself is
// left.
func advised[T any](d *decoder, n *yaml.Node, read reader[T]) (T, bool) {
	before := len(d.faults)
	value, ok := read(d, n)
	for i := range d.faults[before:] {
		if f := &d.faults[before+i]; f.node == n && !f.elsewhere {
			f.suggestion = taken(d, f.suggestion, read)
		}
	}
	return value, ok
}

// taken is advice that a reader takes: this, or what it says of this in turn. Empty: none of these is taken.
func taken[T any](dec *decoder, advice string, read reader[T]) string {
	const steps = 3 // no reader needs more, and none may go on for ever
	for range steps {
		if advice == "" {
			return ""
		}
		value, unquoted := strings.CutSuffix(advice, withoutQuotes)
		node, legible := written(value)
		if !legible {
			advice, unquoted = strconv.Quote(value), false
			node, _ = written(advice)
		}
		try := &decoder{lenient: dec.lenient, strict: dec.strict, steps: 1000}
		if _, ok := read(try, node); ok && !slices.ContainsFunc(try.faults, func(f fault) bool { return f.severity != inventory.Warning }) {
			return advice
		}
		if len(try.faults) == 0 || try.faults[0].elsewhere || unquoted {
			return ""
		}
		advice = try.faults[0].suggestion
	}
	return ""
}

// reader reads a value, or refuses the node.
type reader[T any] = func(*decoder, *yaml.Node) (T, bool)

// withoutQuotes ends advice to write a value that is in quotes without them.
const withoutQuotes = " without quotes"
