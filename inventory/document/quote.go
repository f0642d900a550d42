package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Text that needs no quotes: it begins like a name, an IPv4 address or a time,
// and is neither a number nor a word that YAML, old or new, takes for something else.
var (
	plainForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$|^[0-9]+(\.[0-9]+){3}(/[0-9]+)?$|^[0-9]+(ms|s|m|h|%)$`)
	yamlsWords = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null|nan|inf)$`)
)

// quoted writes text so that YAML reads it back as the same text.
func quoted(s string) string {
	if plainForm.MatchString(s) && !yamlsWords.MatchString(s) {
		return s
	}
	return jsonString(s)
}

// jsonString quotes as JSON does, which YAML reads too. What YAML does not let stand as it is (YAML
// 1.2.2, section 5.1) it escapes.
func jsonString(s string) string {
	var text strings.Builder
	text.WriteByte('"')
	for _, char := range s {
		switch {
		case char == '"' || char == '\\':
			text.WriteByte('\\')
			text.WriteRune(char)
		case char < ' ' || char >= 0x7f && char <= 0xa0 || char == 0x2028 || char == 0x2029 || char == 0xfeff || char == 0xfffe || char == 0xffff:
			fmt.Fprintf(&text, `\u%04x`, char)
		default:
			text.WriteRune(char)
		}
	}
	text.WriteByte('"')
	return text.String()
}

// flowList prints values as people write a short list.
func flowList[T fmt.Stringer](all []T) string {
	words := converted(all, func(v T) string { return quoted(v.String()) })
	return "[" + strings.Join(words, ", ") + "]"
}

// ShortDuration prints 60s where Go prints 1m0s, so that people read what they write.
func ShortDuration(duration time.Duration) string {
	if duration%time.Second == 0 {
		return strconv.FormatInt(int64(duration/time.Second), 10) + "s"
	}
	if duration%time.Millisecond == 0 {
		return strconv.FormatInt(int64(duration/time.Millisecond), 10) + "ms"
	}
	return duration.String()
}

// written is a value as it is read where somebody writes it into a document, also between braces, and whether it is one value
// there.
func written(value string) (*yaml.Node, bool) {
	var document yaml.Node
	if yaml.Unmarshal([]byte("{k: "+value+"}"), &document) == nil && len(document.Content) == 1 {
		if all := document.Content[0].Content; len(all) == 2 {
			return all[1], true
		}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}, false
}
