package inventory

import (
	"bytes"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// NotShown stands in a [Problem] for a value that may be a password.
const NotShown = "(not shown)"

// Keys that bear a secret in some configuration or other, as people spell them
// and misspell them. In vain hidden is better than once shown.
var (
	secretParts = []string{"pass", "pasw", "psw", "pwd", "psk", "secret", "md5", "hmac", "token", "credential", "authent", "key"}
	secretWords = []struct {
		word  string
		typos int
	}{{"password", 2}, {"passwordfrom", 3}, {"secret", 1}, {"auth", 0}, {"pw", 0}}
	keyLike   = regexp.MustCompile(`^[\w./-]*$`)
	separator = strings.NewReplacer("-", "", "_", "", ".", "", "/", "", " ", "")
	// inKeyPlace finds words that stand where a key does, with a colon behind them or without.
	inKeyPlace = regexp.MustCompile(`(?:^|[{,#?&!\[]|-\s)[\s"']*([\w./-]+)|([\w./-]+)["']?\s*[:=]`)
	// valueInMessage finds what a message repeats of a value: text in quotes, or a tag.
	valueInMessage = regexp.MustCompile(`(tagged )\S*[^\s,]|"(?:[^"\\]|\\.)*"`)
	selects        = regexp.MustCompile(`\b(oper\w*|values)["']?\s*:`)
)

// looksSecret reports whether a key may bear a password or a key. The word key
// alone, which a selector has too, does not.
func looksSecret(key string) bool {
	key = strings.TrimPrefix(strings.ToLower(key), "x-")
	if key == "key" {
		return false
	}
	whole := separator.Replace(key)
	for _, part := range secretParts {
		if strings.Contains(whole, part) {
			return true
		}
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
	for _, m := range inKeyPlace.FindAllStringSubmatch(line, -1) {
		for _, word := range m[1:] {
			if looksSecret(word) || strings.EqualFold(word, "key") && !selects.MatchString(line) {
				return true
			}
		}
	}
	return false
}

// tellsSecret reports whether text is more than a key, and has a secret in it:
// "password hunter2", where a colon was forgotten.
func tellsSecret(text string) bool { return !keyLike.MatchString(text) && bearsSecret(text) }

// MayHoldPassword reports whether a line of the document, counted from 1, is
// better kept out of terminals and logs: it has a key that looks like that of a
// secret, or belongs to one on a line above.
func (d Document) MayHoldPassword(line int) bool {
	lines := bytes.SplitN(d.Data, []byte("\n"), line+1)
	if line < 1 || line > len(lines) {
		return false
	}
	at := string(lines[line-1])
	if bearsSecret(at) {
		return true
	}
	deep, next := indent(at), true
	for i := line - 2; i >= 0; i-- {
		above := strings.TrimSpace(string(lines[i]))
		if above == "" {
			continue
		}
		in := indent(string(lines[i]))
		if (in < deep || next && strings.HasSuffix(above, ":")) && bearsSecret(above) {
			return true
		}
		deep, next = min(deep, in), false
	}
	return false
}

// indent is the number of characters before the first key of a line.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

// hide takes out of the problem what may be a password; below says that its
// node is the value of a secret, or a part of it.
func (p *Problem) hide(f fault, below bool) {
	if f.node == nil || f.value == NotShown || !below && !tellsSecret(f.node.Value) && !tellsSecret(p.Value) {
		return
	}
	if f.node.Kind == yaml.ScalarNode {
		p.Value = NotShown
		if f.code != UnknownKey { // whose suggestions are other keys
			p.Suggestion = ""
		}
	}
	p.Message = valueInMessage.ReplaceAllString(p.Message, "${1}"+NotShown)
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
		walk(p.root, trail{}, func(n *yaml.Node, _ *trail) {
			for key, value := range pairs(n) {
				secret, ok := known[key.Value]
				if !ok {
					secret = looksSecret(key.Value)
					known[key.Value] = secret
				}
				if secret {
					mark(value)
				}
			}
		})
	}
	return out
}
