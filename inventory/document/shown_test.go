package document

import (
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

// inSpec is an inventory with the text in its spec.
func inSpec(spec string) Document {
	return Document{"a", []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n")}
}

// asShown is the text of the document as it may be shown.
func asShown(doc Document) string {
	var out []string
	for n := 1; ; n++ {
		line, _, ok := doc.Lines().At(n, 1)
		if !ok {
			return strings.Join(out, "\n")
		}
		out = append(out, line)
	}
}

func TestWhatHasNoTypeInAPasswordsPlaceIsNotShown(t *testing.T) {
	for _, c := range []struct{ spec, path, message, value, suggestion string }{
		{"bgp: {passwordFrom: hunter6}", "bgp.passwordFrom", "is text, not a mapping", inventory.NotShown, ""},
		{"bgp: {passwordFrom: a}", "bgp.passwordFrom", "is text, not a mapping", inventory.NotShown, ""},
		{"bgp: {passwordFrom: {secret: Hunter_6, key: k}}", "bgp.passwordFrom.secret", "is not a name of the right form", inventory.NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: hunter 6}}", "bgp.passwordFrom.key", "is not the key of a Secret", inventory.NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: k, hunter6: x}}", "bgp.passwordFrom", "is an unknown key", inventory.NotShown, ""},
		{"bgp: {passwordFrom: {secert: s, key: k}}", "bgp.passwordFrom", "is an unknown key", inventory.NotShown, "secret"},
		{"bgp: {passwrd: hunter6}", "bgp.passwrd", "is an unknown key", "passwrd", ""},
		{"bgp: {hunter6}", "bgp", "is an unknown key", inventory.NotShown, ""},
		{"bgp: {pasword hunter6: x}", "bgp", "is an unknown key", inventory.NotShown, ""},
		{"bgp: hunter6", "bgp", "is text, not a mapping", inventory.NotShown, ""},
		{"routers: [hunter6]", "routers[0]", "is text, not a mapping", inventory.NotShown, ""},
		{"bgp: {passwordFrom: !hunter6 }", "bgp.passwordFrom", "is a value with a tag of its own, not a mapping", inventory.NotShown, ""},
		{"bgp: {password: {{hunter6}}}", "bgp.password", "a password must not stand in the inventory", inventory.NotShown, "passwordFrom: {secret: bgp, key: password}"},
		{"bgp: {passwordFrom: !hunter6 [a]}", "bgp.passwordFrom", "is a value with a tag of its own, not a mapping", "", ""},
		{"x-p: &p hunter6\nbgp: {passwordFrom: *p}", "x-p", "is text, not a mapping", inventory.NotShown, ""},
		{"bgp: {md5: &p hunter6}\nregion: *p\nlabels: {a: *p, a b: *p}", "labels.a b", "is not a label key", "a b", "a-b"},
	} {
		_, problems := Load(inSpec(c.spec))
		i := slices.IndexFunc(problems, func(p inventory.Problem) bool { return strings.HasPrefix(p.Message, c.message) })
		if i < 0 || strings.Contains(strings.ToLower(problems.String()), "hunter") {
			t.Errorf("%s: %v", c.spec, problems)
			continue
		}
		if shown := asShown(inSpec(c.spec)); strings.Contains(strings.ToLower(shown), "hunter") {
			t.Errorf("of\n%s\nis shown\n%s", c.spec, shown)
		}
		if p := problems[i]; p.Path != "spec."+c.path || p.Value != c.value || p.Suggestion != c.suggestion {
			t.Errorf("%s: %v", c.spec, p)
		}
	}
}

// What the schema has a type for is shown, whatever it is called, and however wrong it is.
func TestWhatHasATypeIsShown(t *testing.T) {
	for _, spec := range []string{
		"labels: {bad key: x, password: \"a b\", token: 1}",
		"labels: {a: [password, hunter2]}",
		"communities: {secret: \"1:hunter2\", md5: x}",
		"storage: [{name: a, rack: b, csi: {driver: c, attributes: {password: true, secretRef: x}}}]",
		"pools: [{name: a, serviceSelector: {matchLabels: {auth-token: \"!\"}, matchExpressions: [{key: password!, operator: Inn}]}, namespaces: [psk!, external-secrets]}]",
		"racks: [{name: r, machines: [{name: w, taints: [{key: secret!, effect: x}], labels: {pass: true}}]}]",
		"bgp: {asn: no, holdTime: 9, bfd: [x]}",
		"routers: [{name: token, address: 10.0.0.999}]",
		"routers: {name: token, address: md5}",
		"routers: [{name: a, address: [10.0.0.1, 10.0.0.2]}]",
		"bgp: {asn: [psk], gracefulRestart: {restartTime: 60}}",
		"x-all: &all {holdTime: secret, asn: [a]}\nbgp: *all",
		"x-all: &all\n  holdTime: secret\nbgp: {<<: [*all], asn: token}",
		"bgp: {passwordFrom: {secret: bgp, key: hunter2}, asn: 0}",
		"bgp: {asn: 1\n  , multihop: 300}",
	} {
		doc := inSpec(spec)
		if got := asShown(doc); got != strings.TrimSuffix(string(doc.Data), "\n") {
			t.Errorf("of\n%s\nis shown\n%s", doc.Data, got)
		}
		if _, problems := Load(doc); strings.Contains(problems.String(), inventory.NotShown) {
			t.Errorf("%s: %v", spec, problems)
		}
	}
}

// What cannot be read has no types. Documents before it in the same file are read.
func TestOfWhatIsNoYAMLNoLineIsShown(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\nmd5-key: hunter2\nzone: : a\n":                         "LINE\nLINE\nLINE",
		"apiVersion: b\n---\n{kind: b}\n---\nx: [\nsecret: hunter2\n": "apiVersion: b\n---\nLINE\nLINE\nLINE\nLINE",
		"{kind: b} password: hunter2\n":                               "LINE",
	} {
		if got := asShown(Document{"a", []byte(text)}); got != strings.ReplaceAll(want, "LINE", LineNotShown) {
			t.Errorf("of\n%s\nis shown\n%s", text, got)
		}
	}
}

// What was meant is told where all of it has a type once it is YAML.
func TestOfWhatIsNoYAMLOnlyWhatHasATypeIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Inventory\npassword: @hunter2\n": "a:2:11: error[P0101]: is not YAML: found character that cannot start any token, while scanning for the next token; accepted: YAML or JSON",
		"kind: *hunter2\n":                      "a:1:7: error[P0101]: is not YAML: an alias of an anchor that is not here; accepted: YAML or JSON",
		"password: b\nkind: @b\n":               `a:2:7: error[P0101]: is not YAML: found character that cannot start any token, while scanning for the next token; accepted: YAML or JSON; did you mean "kind: \"@b\""?`,
	} {
		if _, problems := Parse(Document{"a", []byte(text)}); problems.String() != want {
			t.Errorf("of\n%s\nis told\n%v", text, problems)
		}
	}
}

// Only what has no type is left out of a line, and every comment.
func TestTheRestOfALineIsShown(t *testing.T) {
	for text, want := range map[string]string{
		`  bgp: {asn: 1, md5: "hunter2", multihop: x} # why`: `  bgp: {asn: 1, md5: (not shown), multihop: x} # (not shown)`,
		"  bgp: {ä: é, md5: é, multihop: x}":                 "  bgp: {(not shown): (not shown), md5: (not shown), multihop: x}",
		"  bgp: {asn: 1} # the password is hunter2":          "  bgp: {asn: 1} # (not shown)",
		"  bgp: {asn: 1} # not this\n  #token: x":            "  bgp: {asn: 1} # (not shown)\n  #(not shown)",
		"  bgp:\n    md5: |\n      hunter2\n\n    asn: 1":    "  bgp:\nLINE\nLINE\nLINE\n    asn: 1",
		"  bgp: {md5: \"a\n   b\", asn: 1,\n   multihop: x}": "LINE\nLINE\n   multihop: x}",
		"  bgp: {md5: a\n   b}\n  region: x":                 "LINE\nLINE\n  region: x",
		"  bgp: {md5: !t x, asn: 1}\n  region: x":            "LINE\n  region: x",
		"  bgp: {md5: &t {a: b}, asn: 1}\n  region: x":       "LINE\n  region: x",
		"  x-a: &a b\n  bgp: {md5: *a, asn: 1}":              "LINE\n  bgp: {md5: (not shown), asn: 1}",
		"  bgp: {md5: 'it''s'}\n  region: x":                 "LINE\n  region: x",
		"  bgp: {md5: ''}\n  region: x\u2028  zzz: y":        "  bgp: {md5: (not shown)}\n  region: x\n  zzz: (not shown)",
		"  bgp:\n    md5:\n    - a\n    - b: c\n    asn: 1":  "  bgp:\n    md5:\n    - (not shown)\n    - (not shown): (not shown)\n    asn: 1",
	} {
		const header = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n"
		if got := asShown(Document{"a", []byte(header + text)}); got != header+strings.ReplaceAll(want, "LINE", LineNotShown) {
			t.Errorf("of\n%s\nis shown\n%s", text, strings.TrimPrefix(got, header))
		}
	}
}
