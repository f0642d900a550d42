package inventory

import (
	"regexp"
	"strings"
)

// Lines are the lines of a document, and what is known of those that somebody asked for. Thousands of problems ask for
// the same lines above them, so each line is looked at once. It is not safe for use by several goroutines.
type Lines struct {
	text []string
	seen []line
}

// line is what is known of a line.
type line struct {
	known  bool
	blank  bool
	indent int
	opens  opened // brackets and quotes that it opens, less those that it closes
	secret *bool  // that a key of it looks like that of a secret; nil: nobody has asked
}

// Lines are the lines of the document.
func (d Document) Lines() *Lines {
	text := strings.Split(string(d.Data), "\n")
	return &Lines{text: text, seen: make([]line, len(text))}
}

// At is a line, counted from 1, and whether there is one of that number. No Lines have none.
func (l *Lines) At(number int) (string, bool) {
	if l == nil || number < 1 || number > len(l.text) || number == len(l.text) && l.text[number-1] == "" {
		return "", false
	}
	return strings.TrimRight(l.text[number-1], "\r"), true
}

// MayHoldPassword reports whether a line, counted from 1, is better kept out of terminals and logs: it has a key that
// looks like that of a secret, or belongs to one on a line above.
func (l *Lines) MayHoldPassword(number int) bool {
	at := number - 1
	if at < 0 || at >= len(l.text) {
		return false
	}
	return !isName(l.text, at) && (bearsAt(l.text, at) || l.belowSecret(at))
}

// of is what is known of a line, counted from 0.
func (l *Lines) of(at int) *line {
	known := &l.seen[at]
	if !known.known {
		trimmed := strings.TrimSpace(l.text[at])
		*known = line{known: true, blank: trimmed == "", indent: indent(l.text[at])}
		known.opens.add(trimmed)
	}
	return known
}

// belowSecret reports whether a line, counted from 0, belongs to a key on a line above that looks like that of a secret.
func (l *Lines) belowSecret(at int) bool {
	deep, next, open := indent(l.text[at]), true, opened{}
	// A value whose key stands above, or the rest of a text.
	value := strings.HasPrefix(strings.TrimSpace(l.text[at]), ":") || !strings.Contains(l.text[at], ":")
	for i := at - 1; i >= 0 && (next || deep > 0 || at-i < flowLines); i-- {
		above := l.of(i)
		if above.blank {
			continue
		}
		open = open.and(above.opens)
		below := above.indent < deep || open.any() && above.opens.any() && at-i < flowLines
		if next {
			text := strings.TrimSpace(l.text[i])
			item := isName(l.text, i) && beginsItem(l.text[at])
			if !item && ((below || goesOn(text)) && bearsAt(l.text, i) || value && bearsSecret(text)) {
				return true
			}
			next = strings.Trim(text, "-?: ") == ""
		}
		if below && l.keysSecret(i) {
			return true
		}
		deep = min(deep, above.indent)
	}
	return false
}

// keysSecret reports whether a key of a line, counted from 0, looks like that of a secret.
func (l *Lines) keysSecret(at int) bool {
	known := l.of(at)
	if known.secret == nil {
		secret := keysSecret(l.text, at)
		known.secret = &secret
	}
	return *known.secret
}

// keysSecret is Lines.keysSecret of a line that nobody has asked for.
func keysSecret(lines []string, at int) bool {
	for _, m := range inKeyPlace.FindAllStringSubmatch(lines[at], -1) {
		for _, word := range m[1:] {
			if looksSecret(word) || strings.EqualFold(word, "key") {
				return bearsAt(lines, at)
			}
		}
	}
	return false
}

// bearsAt is [bearsSecret] for one of several lines.
func bearsAt(lines []string, at int) bool {
	sure, perhaps := secretsIn(lines[at])
	return sure || perhaps && !selectsAround(lines, at)
}

// ending is what a line ends with whose value begins at the next one.
var ending = regexp.MustCompile(`(:|[|>][-+0-9]*)\s*(#.*)?$`)

// goesOn reports whether the value of a key, or text, may go on at the next line.
func goesOn(line string) bool { return ending.MatchString(line) || !strings.Contains(line, ":") }

// flowLines is how many lines a mapping in braces, or a text in quotes, may have: what is
// further up is taken for a quote of another kind, as in a comment.
const flowLines = 200

// opened counts what lines open and do not close. It is right about YAML without quotes in
// quotes, and else hides too much.
type opened struct{ brackets, double, single int }

// notOpening is what has no part in it: comments, and apostrophes in words.
var notOpening = regexp.MustCompile(`(^|\s)#.*|\pL'`)

func (o *opened) add(line string) {
	for _, r := range notOpening.ReplaceAllString(line, "") {
		switch r {
		case '{', '[':
			o.brackets++
		case '}', ']':
			o.brackets--
		case '"':
			o.double++
		case '\'':
			o.single++
		}
	}
}

// and is what is open after two lines that follow each other.
func (o opened) and(p opened) opened {
	return opened{o.brackets + p.brackets, o.double + p.double, o.single + p.single}
}

func (o opened) any() bool { return o.brackets > 0 || o.double%2 == 1 || o.single%2 == 1 }

// indent is the number of characters before the first key of a line.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }
