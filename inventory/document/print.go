package document

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// mapOf is a mapping that keeps its order. Its values are bare, string,
// []string, mapOf and []mapOf.
type mapOf []pair

type pair struct {
	key   string
	value any
}

// remarks are lines of comment, which come first in a mapping, under a key that nobody reads.
type remarks []string

// bare is a scalar that is printed as it is: a number or a truth value.
type bare string

// filled is a mapping without what is empty. Every value is a text or a list.
func filled(m mapOf) mapOf {
	return slices.DeleteFunc(m, func(p pair) bool { return reflect.ValueOf(p.value).Len() == 0 })
}

// printer writes YAML: mappings and lists of mappings in blocks, lists of
// scalars in one line.
type printer struct{ bytes.Buffer }

func (p *printer) mapping(m mapOf, indent int) {
	m = p.comment(m, indent)
	for i, f := range m {
		if i > 0 || indent >= 0 {
			p.WriteString(strings.Repeat(" ", max(indent, 0)))
		}
		p.field(f, indent)
	}
}

// field writes one key; the indentation before it is there already.
func (p *printer) field(f pair, indent int) {
	p.WriteString(quoted(f.key) + ":")
	switch v := f.value.(type) {
	case mapOf:
		p.WriteByte('\n')
		p.mapping(v, indent+2)
	case []mapOf:
		p.WriteByte('\n')
		for _, item := range v {
			p.item(item, indent+2)
		}
	case []string:
		p.WriteString(" [" + strings.Join(converted(v, quoted), ", ") + "]\n")
	case string:
		p.WriteString(" " + quoted(v) + "\n")
	default:
		fmt.Fprintf(p, " %v\n", v)
	}
}

// comment writes the comment that a mapping begins with, and returns the rest.
func (p *printer) comment(mapping mapOf, indent int) mapOf {
	if len(mapping) == 0 {
		return mapping
	}
	lines, ok := mapping[0].value.(remarks)
	if !ok {
		return mapping
	}
	for _, line := range lines {
		p.WriteString(strings.TrimRight(strings.Repeat(" ", max(indent, 0))+"# "+line, " ") + "\n")
	}
	return mapping[1:]
}

// item writes a mapping as an item of a list.
func (p *printer) item(m mapOf, indent int) {
	m = p.comment(m, indent)
	if len(m) == 0 {
		p.WriteString(strings.Repeat(" ", indent) + "- {}\n")
	}
	for i, pair := range m {
		p.WriteString(strings.Repeat(" ", indent))
		if i == 0 {
			p.WriteString("- ")
		} else {
			p.WriteString("  ")
		}
		p.field(pair, indent+2)
	}
}
