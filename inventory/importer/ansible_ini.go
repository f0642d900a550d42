package importer

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// readINI reads the oldest form of an inventory: sections of hosts, of a group's variables, and of its children.
func (f *ansibleInventory) readINI(text string) {
	var group *yaml.Node
	kind := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		column := utf8.RuneCountInString(line[:strings.Index(line, trimmed)]) + 1
		at := scalar(trimmed, i+1, column)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"):
		case strings.HasPrefix(trimmed, "[") && !isHostRange(trimmed):
			group, kind = f.section(at)
		case kind == "vars":
			f.variable(group, at)
		case kind == "children":
			name, _, _ := strings.Cut(trimmed, " ")
			addNode(&entryOf(&f.groups, group).children, scalar(name, at.Line, at.Column))
		case kind == "":
			f.hostLine(group, at)
		}
	}
}

// isHostRange reports whether a line in brackets is an address with a port, as [fd00::1]:22, and no section.
func isHostRange(line string) bool { return strings.Contains(line, "]:") }

// section reads [group], [group:vars] or [group:children]. Of one that is broken nothing is read.
func (f *ansibleInventory) section(at *yaml.Node) (group *yaml.Node, kind string) {
	inside, rest, ok := strings.Cut(at.Value[1:], "]")
	name, kind, _ := strings.Cut(inside, ":")
	name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
	if !ok || name == "" || strings.ContainsAny(name, "{}\"'=,; \t") || rest != "" && rest[0] != '#' && rest[0] != ';' || kind != "" && kind != "hosts" && kind != "vars" && kind != "children" {
		f.refuse(at, "is no section of an inventory: accepted are [group], [group:vars] and [group:children]")
		return nil, "broken"
	}
	if kind == "hosts" {
		kind = ""
	}
	group = scalar(name, at.Line, at.Column)
	entryOf(&f.groups, group)
	return group, kind
}

// variable reads key=value of a group.
func (f *ansibleInventory) variable(group, at *yaml.Node) {
	key, value, ok := strings.Cut(at.Value, "=")
	if !ok {
		f.refuse(at, "is no variable: accepted is name=value")
		return
	}
	rest := strings.TrimSpace(value)
	column := at.Column + utf8.RuneCountInString(at.Value[:len(at.Value)-len(rest)])
	words := iniWords(rest)
	if len(words) == 1 && words[0].quoted {
		rest = words[0].text
	}
	f.groupVars(group, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(strings.TrimSpace(key), at.Line, at.Column), iniValue(rest, at.Line, column)}})
}

// hostLine reads a host and its variables. Of a line that is broken the host alone is read: what else stands there may be parts of a password.
func (f *ansibleInventory) hostLine(group, at *yaml.Node) {
	vars := &yaml.Node{Kind: yaml.MappingNode}
	words := iniWords(at.Value)
	for _, w := range words[1:] {
		column := at.Column + w.column
		key, value, ok := strings.Cut(w.text, "=")
		if !ok {
			f.refuse(scalar("", at.Line, column), "is no variable of a host: accepted is name=value, with quotes around a value that has blanks")
			vars.Content = nil
			break
		}
		vars.Content = append(vars.Content, scalar(key, at.Line, column), iniValue(value, at.Line, column+utf8.RuneCountInString(key)+1))
	}
	f.host(scalar(words[0].text, at.Line, at.Column), group, vars)
}

// iniWord is a word of a line, without its quotes.
type iniWord struct {
	text   string
	column int // of its first character, from 0
	quoted bool
}

// iniWords are the words of a line, as a shell has them: quotes keep blanks, and # begins a comment. There is one at least.
func iniWords(line string) (words []iniWord) {
	runes := []rune(line)
	for at := 0; at < len(runes) && runes[at] != '#'; at++ {
		if !isBlank(runes[at]) {
			var word iniWord
			word, at = iniWordAt(runes, at)
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return []iniWord{{}}
	}
	return words
}

// iniWordAt is the word that begins at a column, and the column of the blank after it.
func iniWordAt(line []rune, column int) (word iniWord, end int) {
	var text strings.Builder
	quote, escaped, quoted := rune(0), false, false
	for end = column; end < len(line) && (quote != 0 || escaped || !isBlank(line[end])); end++ {
		switch char := line[end]; {
		case escaped:
			text.WriteRune(char)
			escaped = false
		case char == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && char == quote:
			quote = 0
		case quote == 0 && (char == '"' || char == '\''):
			quote, quoted = char, true
		default:
			text.WriteRune(char)
		}
	}
	return iniWord{text.String(), column, quoted}, end
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' || c == '\r' }

// iniValue is a value, of which lists and mappings are as Python has them. Those that YAML reads are taken apart.
func iniValue(text string, line, column int) *yaml.Node {
	if (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && !isTemplate(text) {
		if pages, _ := pagesOf([]byte(text)); len(pages) == 1 {
			shift(pages[0], line, column)
			return pages[0]
		}
	}
	return scalar(text, line, column)
}

// shift moves nodes of one line to the place of their text.
func shift(n *yaml.Node, line, column int) {
	n.Line, n.Column = line, n.Column+column-1
	for _, c := range n.Content {
		shift(c, line, column)
	}
}

// isTemplate reports whether a value is one of Jinja's.
func isTemplate(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "{%")
}
