package inventory

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// NotShown stands in a [Problem] for a value that may be a password.
const NotShown = "(not shown)"

// Keys that bear a secret in some configuration or other, as people spell them
// and misspell them. In vain hidden is better than once shown.
var (
	secretParts = []string{"pass", "pasw", "psw", "pwd", "psk", "secret", "md5", "hmac", "token", "credential", "authent"}
	secretWords = []struct {
		word  string
		typos int
	}{{"password", 2}, {"passwordfrom", 3}, {"secret", 1}, {"auth", 0}, {"pw", 0}}
	keyLike   = regexp.MustCompile(`^[\w./-]*$`)
	separator = regexp.MustCompile(`[^\pL\pN]`)
	bareWord  = regexp.MustCompile(`[\w./-]*\w`)
	// inKeyPlace finds words that stand where a key does, with a colon behind them or without.
	inKeyPlace = regexp.MustCompile(`(?:^|[{,#?&!\[]|-\s)[\s"'-]*(\w[\w./-]*)|([\w./-]+)["']?\s*[:=]`)
	// valueInMessage finds what a message repeats of a value: text in quotes, or a tag.
	valueInMessage = regexp.MustCompile(`(tagged )\S*[^\s,]|"(?:[^"\\]|\\.)*"`)
)

// looksSecret reports whether a key may bear a password or a key. The word key
// alone, which a selector has too, does not.
func looksSecret(key string) bool {
	key = strings.TrimPrefix(strings.ToLower(key), "x-")
	whole := separator.ReplaceAllString(key, "")
	if whole == "key" {
		return false
	}
	for _, part := range secretParts {
		if strings.Contains(whole, part) {
			return true
		}
	}
	if strings.HasSuffix(whole, "key") || strings.HasSuffix(whole, "keys") {
		return true // and not keycloak
	}
	for _, w := range secretWords {
		if distance(whole, w.word, w.typos+1) <= w.typos {
			return true
		}
	}
	return false
}

// bearsSecret reports whether a line has a key that may bear a password.
func bearsSecret(line string) bool {
	sure, perhaps := secretsIn(line)
	return sure || perhaps
}

// secretsIn reports whether a line has a word that names a secret, wherever it stands, and whether
// it has the word key, by itself, of which only other lines may tell that it is a taint's or a
// selector's.
func secretsIn(line string) (sure, perhaps bool) {
	line = namesInLine.ReplaceAllStringFunc(line, withoutNames)
	for _, at := range bareWord.FindAllStringIndex(line, -1) {
		switch word := line[at[0]:at[1]]; {
		case looksSecret(word):
			return true, false
		case strings.EqualFold(strings.Trim(word, "-./"), "key"):
			perhaps = perhaps || !selectsBeside(line, at[0], at[1])
		}
	}
	return false, perhaps
}

// tellsSecret reports whether text is more than a key, and has a secret in it:
// "password hunter2", where a colon was forgotten.
func tellsSecret(text string) bool { return !keyLike.MatchString(text) && bearsSecret(text) }

// hide takes out of the problem what may be a password; below says that its
// node is the value of a secret, or a part of it.
func (p *Problem) hide(f fault, below bool) {
	if f.node == nil || f.value == NotShown || !below && !tellsSecret(f.node.Tag) && !tellsSecret(f.node.Value) && !tellsSecret(p.Value) {
		return
	}
	if f.node.Kind == yaml.ScalarNode {
		p.Value, p.Path = NotShown, knownPath(p.Path)
		if f.code != UnknownKey { // whose suggestions are other keys
			p.Suggestion = ""
		}
	}
	p.Message = valueInMessage.ReplaceAllString(p.Message, "${1}"+NotShown)
}

// knownPath is a path without a last key that is none of an inventory's: it may be the password.
func knownPath(path string) string {
	at := strings.LastIndexByte(path, '.')
	last, _, _ := strings.Cut(path[at+1:], "[")
	for _, all := range fieldsByType {
		if _, ok := all[last]; ok {
			return path
		}
	}
	return path[:max(at, 0)]
}

// below reports whether the trail leads to the value of a secret, or into it.
func (t *trail) below() bool {
	for ; t != nil; t = t.parent {
		if t.item == nil && t.parent != nil && looksSecret(t.key) {
			return true
		}
	}
	return false
}

// secretNodes are the values of secrets with all that is in them, also where an
// alias names what is written elsewhere.
func secretNodes(pages []page) map[*yaml.Node]bool {
	out := map[*yaml.Node]bool{}
	var mark func(n *yaml.Node)
	mark = func(n *yaml.Node) {
		if n == nil || out[n] {
			return
		}
		out[n] = true
		mark(n.Alias)
		for _, c := range n.Content {
			mark(c)
		}
	}
	known := map[string]bool{} // keys come again and again
	for _, p := range pages {
		walk(p.root, trail{}, func(n *yaml.Node, t *trail) {
			if tellsSecret(n.Tag) {
				mark(n)
			}
			empty := false // the key before was a secret's, and had no value
			for key, value := range pairs(n) {
				if empty && n.Style&yaml.FlowStyle != 0 {
					mark(key) // {password:, hunter2}
				}
				secret, ok := known[key.Value]
				if !ok {
					secret = looksSecret(key.Value) || tellsSecret(key.Value)
					known[key.Value] = secret
				}
				if secret || strings.EqualFold(key.Value, "key") && !selects(n, t) {
					mark(value)
				}
				empty = secret && isNull(value)
			}
		})
	}
	return out
}
