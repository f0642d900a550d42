package inventory

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The word key names a password at some routers. Of a taint it names the taint, and of a
// selector a label: such lines are shown. So are lists of names, of which one may be
// external-secrets.
var (
	besideKey   = []string{"effect", "operator", "values", "value"}
	aroundKey   = []string{"taints", "matchExpressions", "tolerations"}
	aroundNames = []string{"namespaces", "peers", "racks", "routers", "zones"}

	keyAndColon = regexp.MustCompile(`([\w./-]+)["']?\s*:`)
	namesInLine = regexp.MustCompile(`[\w./-]+["']?\s*:\s*\[\s*[\w./-]+(?:\s*,\s*[\w./-]+)*\s*\]`)
	oneName     = regexp.MustCompile(`^\s*-\s+[\w./-]+\s*$`)
)

// withoutNames empties a list of names in a line.
func withoutNames(list string) string {
	if key := keyAndColon.FindStringSubmatch(list); near(key[1], aroundNames) {
		return ""
	}
	return list
}

// isName reports whether a line is an item of a list of names.
func isName(lines []string, at int) bool {
	return oneName.MatchString(lines[at]) && near(keyAbove(lines, at), aroundNames)
}

// keyAbove is the key that stands alone on the next line above that is indented less, and has
// the list that a line is in; empty where there is none.
func keyAbove(lines []string, at int) string {
	for i := at - 1; i >= 0; i-- {
		if above := strings.TrimSpace(lines[i]); above != "" && indent(lines[i]) < indent(lines[at]) {
			if m := keyAndColon.FindStringSubmatch(above); m != nil && strings.HasSuffix(above, ":") {
				return m[1]
			}
			return ""
		}
	}
	return ""
}

// selects reports whether the mapping to which a trail leads is a taint or an expression of a
// selector.
func selects(mapping *yaml.Node, t *trail) bool {
	for key := range pairs(mapping) {
		if near(key.Value, besideKey) {
			return true
		}
	}
	return t.item != nil && near(t.parent.key, aroundKey)
}

// near reports whether a word is one of some, perhaps mistyped.
func near(word string, some []string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return distance(strings.ToLower(word), strings.ToLower(s), 3) < 3 })
}

// selectsBeside reports whether the word at from belongs to a taint or selector, by what stands
// in the same braces, or by the list that these are in.
func selectsBeside(line string, from, to int) bool {
	begin, end := 0, len(line)
	if i := strings.LastIndexAny(line[:from], "{}[]"); i >= 0 {
		begin = i + 1
	}
	if i := strings.IndexAny(line[to:], "{}[]"); i >= 0 {
		end = to + i
	}
	for _, m := range keyAndColon.FindAllStringSubmatch(line[begin:end], -1) {
		if near(m[1], besideKey) {
			return true
		}
	}
	before := strings.TrimRight(line[:begin], "{ ")
	list := keyAndColon.FindAllStringSubmatch(before, -1)
	return strings.HasSuffix(before, "[") && len(list) > 0 && near(list[len(list)-1][1], aroundKey)
}

// selectsAround reports whether the word key of a line belongs to a taint or selector, by the
// lines above: another key of the same mapping, or the key of the list.
func selectsAround(lines []string, at int) bool {
	deep := indent(lines[at])
	for i := at; i > 0 && !beginsItem(lines[i]); i-- {
		above := keyAndColon.FindStringSubmatch(lines[i-1])
		if indent(lines[i-1]) < deep {
			break
		}
		if indent(lines[i-1]) == deep && above != nil && near(above[1], besideKey) {
			return true
		}
	}
	return near(keyAbove(lines, at), aroundKey)
}

// beginsItem reports whether a line begins an item of a list.
func beginsItem(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "-") }
