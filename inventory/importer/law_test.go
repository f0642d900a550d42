package importer

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// checkLaw holds an import against the law of this package: every scalar is carried, and then another value of it changes what comes out;
// or a note tells of it; or it is without meaning. What comes out is valid, and the same each time; and reading and writing it changes nothing. It
// returns what came out.
func checkLaw(t rapid.TB, options Options, docs ...document.Document) []byte {
	t.Helper()
	objects, unread := readObjects(docs, options.Sources...)
	if unread.Failed() {
		t.Fatalf("is not read: %v", unread)
	}
	docs = rewritten(t, objects)
	d := draftOf(options, docs)
	d.complete()
	d.finish()
	text, notes := Import(options, docs...)
	before := told(text, notes)
	if again := told(Import(options, docs...)); again != before {
		t.Errorf("two imports differ:\n%s\n%s", before, again)
	}
	if text == nil && !notes.Failed() {
		t.Errorf("nothing is written, and no note is an error: %v", notes)
	}
	if text != nil {
		checkFixedPoint(t, text)
	}
	for i, o := range d.objects {
		for j, l := range objects[i].leaves() { // of the nodes that can be changed
			switch fate := o.fateOf(l.path); {
			case !o.read:
			case fate == meaningless:
				if len(rowsOf(o, l.path)) == 0 {
					t.Errorf("%v %s: no row of the list says why it has no meaning", o, l.path)
				}
			case fate == noted && !tells(d.notes, o, l.path):
				t.Errorf("%v %s: no note tells of it: %v", o, l.path, notes)
			case fate == carried && text != nil:
				was := l.node.Value
				l.node.Value = other(was)
				if after, told := Import(options, rewritten(t, objects)...); bytes.Equal(after, text) && slices.Equal(findings(told), findings(notes)) {
					t.Errorf("%v %s is carried over, and with %q in the place of %q the same inventory comes out:\n%s", o, l.path, l.node.Value, was, before)
				}
				l.node.Value = was
			case fate == "":
				t.Errorf("%v %s: nobody spoke of it (%d)", o, l.path, j)
			}
		}
	}
	return text
}

// findings are what notes are of, without their words: they are the same where another value changes nothing but what a note says of it. A note of no object
// has nothing but words.
func findings(notes Notes) (all []string) {
	for _, n := range notes {
		one := fmt.Sprint(n.Source, n.Severity, n.Code, n.Path)
		if n.of == nil {
			one += n.Message
		}
		all = append(all, one)
	}
	return all
}

// told is all that an import says.
func told(text []byte, notes Notes) string {
	lines := make([]string, len(notes))
	for i, n := range notes {
		lines[i] = n.String()
	}
	return string(text) + strings.Join(lines, "\n")
}

// tells reports whether a note names a field, or something that it is in. One of a field beside it does not count.
func tells(notes Notes, o *object, path string) bool {
	for _, n := range notes {
		if n.of == o && (n.whole || path == "metadata.name" || n.Path != "" && within(path, n.Path)) { // each names the object
			return true
		}
	}
	return false
}

// rewritten are the objects as documents, as their nodes are now.
func rewritten(t rapid.TB, objects []*object) (docs []document.Document) {
	t.Helper()
	for i, o := range objects {
		text, err := yaml.Marshal(o.root)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document.Document{Source: fmt.Sprintf("sample-%03d", i), Data: text})
	}
	return docs
}

// other is another value of the same kind.
func other(value string) string {
	if operator, ok := map[string]string{"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}[value]; ok {
		return operator
	}
	if b, err := strconv.ParseBool(value); err == nil && len(value) > 1 {
		return strconv.FormatBool(!b)
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return strconv.FormatUint(n+1, 10)
	}
	if _, err := time.ParseDuration(value); err == nil {
		return "37s"
	}
	if p, err := netip.ParsePrefix(value); err == nil {
		if p.Addr().Is4() {
			return "198.18.77.0/28"
		}
		return "2001:db8:77::/124"
	}
	if first, _, ok := strings.Cut(value, "-"); ok {
		if _, err := netip.ParseAddr(strings.TrimSpace(first)); err == nil {
			return "198.18.77.1-198.18.77.9"
		}
	}
	if a, err := netip.ParseAddr(value); err == nil {
		return a.Next().String()
	}
	if c, err := inventory.ParseCommunity(value); err == nil && strings.Contains(value, ":") {
		return fmt.Sprintf("%d:%d", c.Global&0xffff, c.Local1&0x7fff+1)
	}
	return value + "x"
}

func TestAnotherValueIsAnother(t *testing.T) {
	for _, v := range []string{"true", "0", "1", "9s", "10.0.0.0/24", "::1/128", "10.0.0.1 - 10.0.0.3", "10.0.0.1", "65535:65282", "a", "a-b", ""} {
		if other(v) == v {
			t.Errorf("%q stays as it is", v)
		}
	}
}
