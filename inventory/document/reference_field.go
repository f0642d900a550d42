package document

import (
	"fmt"
	"strings"
)

// FieldAt finds a key by its path, such as spec.racks.machines.unit, and the
// mapping that stands there or in the list there, if one does. The empty path
// is the document. Names and numbers in brackets, as problems have them in
// their paths, are passed over.
func FieldAt(path string) (FieldDoc, TypeDoc, error) {
	types := Types()
	var field FieldDoc
	at := types[0]
	for _, key := range splitPath(path) {
		found := false
		for _, f := range at.Fields {
			if f.Key == key && !f.Hidden {
				field, found = f, true
			}
		}
		if !found {
			return field, at, noField(at, key, path)
		}
		at = typeNamed(types, field)
	}
	return field, at, nil
}

// FieldPaths returns the path of every key that people may write, in the order of the document.
func FieldPaths() []string {
	types := Types()
	var paths []string
	var walk func(of TypeDoc, before string)
	walk = func(of TypeDoc, before string) {
		for _, f := range of.Fields {
			if !f.Hidden {
				paths = append(paths, before+f.Key)
				walk(typeNamed(types, f), before+f.Key+".")
			}
		}
	}
	walk(types[0], "")
	return paths
}

// BarePath is a path without the names and numbers in brackets that problems have in theirs.
func BarePath(path string) string { return strings.Join(splitPath(path), ".") }

// splitPath splits at points, and drops what is in brackets.
func splitPath(path string) []string {
	var keys []string
	depth, key := 0, ""
	for _, char := range path {
		switch {
		case char == '[':
			depth++
		case char == ']':
			depth--
		case depth > 0:
		case char == '.':
			keys, key = append(keys, key), ""
		default:
			key += string(char)
		}
	}
	if key != "" {
		keys = append(keys, key)
	}
	return keys
}

// typeNamed is the mapping that a field holds, or whose list it holds.
func typeNamed(types []TypeDoc, f FieldDoc) TypeDoc {
	name := f.Type
	if outer, inner := unwrap(f.Type); outer == "list" || outer == "oneOrMore" {
		name = inner
	}
	if f.Key == "gracefulRestart" {
		name = "rawGracefulRestart"
	}
	for _, t := range types {
		if t.Name == name {
			return t
		}
	}
	return TypeDoc{}
}

func noField(at TypeDoc, key, path string) error {
	var keys []string
	for _, f := range at.Fields {
		if !f.Hidden {
			keys = append(keys, f.Key)
		}
	}
	err := fmt.Errorf("%s: there is no field %q; there are %s", path, key, strings.Join(keys, ", "))
	if near := Nearest(key, keys); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return err
}

// kindWords tell what stands in a scalar.
var kindWords = map[string]string{
	"string": "text", "bool": "true or false", "int": "number", "ASN": "AS number", "Limit": "number or percentage", "time.Duration": "time",
	"netip.Addr": "address", "netip.Prefix": "prefix", "Range": "prefix, range or address", "Community": "community", "Reservation": "namespace/name",
	"Learn": "none or default", "Mode": "direct, fabric or overlay", "PoolState": "active, draining or disabled",
	"State": "planned, active, maintenance, off or retired", "Via": "bgp or link", "Operator": "In, NotIn, Exists or DoesNotExist",
}

// Kind names the kind of the field's value in words.
func (f FieldDoc) Kind() string {
	if f.Key == "gracefulRestart" {
		return "off, or a mapping"
	}
	switch outer, inner := unwrap(f.Type); outer {
	case "scalar":
		return kindWords[inner]
	case "entries":
		return "mapping to " + kindWords[inner]
	case "list":
		if o, i := unwrap(inner); o == "scalar" {
			return "list; each item: " + kindWords[i]
		}
		return "list of mappings"
	case "oneOrMore":
		return "mapping, or list of mappings"
	}
	return "mapping"
}
