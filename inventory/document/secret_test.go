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
		{"bgp: {passwordFrom: hunter6}", "bgp.passwordFrom", "is text, not a mapping", NotShown, ""},
		{"bgp: {passwordFrom: a}", "bgp.passwordFrom", "is text, not a mapping", NotShown, ""},
		{"bgp: {passwordFrom: {secret: Hunter_6, key: k}}", "bgp.passwordFrom.secret", "is not a name of the right form", NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: hunter 6}}", "bgp.passwordFrom.key", "is not the key of a Secret", NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: k, hunter6: x}}", "bgp.passwordFrom", "is an unknown key", NotShown, ""},
		{"bgp: {passwordFrom: {secert: s, key: k}}", "bgp.passwordFrom", "is an unknown key", NotShown, "secret"},
		{"bgp: {passwrd: hunter6}", "bgp.passwrd", "is an unknown key", "passwrd", ""},
		{"bgp: {hunter6}", "bgp", "is an unknown key", NotShown, ""},
		{"bgp: {pasword hunter6: x}", "bgp", "is an unknown key", NotShown, ""},
		{"bgp: hunter6", "bgp", "is text, not a mapping", NotShown, ""},
		{"routers: [hunter6]", "routers[0]", "is text, not a mapping", NotShown, ""},
		{"bgp: {passwordFrom: !hunter6 [a]}", "bgp.passwordFrom", "is a value tagged " + NotShown + ", not a mapping", "", ""},
		{"x-p: &p hunter6\nbgp: {passwordFrom: *p}", "x-p", "is text, not a mapping", NotShown, ""},
		{"bgp: {md5: &p hunter6}\nregion: *p\nlabels: {a: *p, a b: *p}", "labels.a b", "is not a label key", "a b", "a-b"},
	} {
		_, problems := Load(inSpec(c.spec))
		i := slices.IndexFunc(problems, func(p inventory.Problem) bool { return strings.HasPrefix(p.Message, c.message) })
		if i < 0 || strings.Contains(strings.ToLower(problems.String()), "hunter") {
			t.Errorf("%s: %v", c.spec, problems)
			continue
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
		"labels: password hunter2",
		"communities: {secret: \"1:hunter2\", md5: x}",
		"storage: [{name: a, rack: b, csi: {driver: c, attributes: {password: true, secretRef: x}}}]",
		"pools: [{name: a, serviceSelector: {matchLabels: {auth-token: \"!\"}, matchExpressions: [{key: password!, operatr: In}]}, namespaces: [psk!, external-secrets]}]",
		"racks: [{name: r, machines: [{name: w, taints: [{key: secret!, effekt: x}], labels: {pass: true}}, w2]}]",
		"bgp: {asnn: 65000, holdtime: 9, hold-time: 9s, bfdd: x}",
		"routers: [{name: token, adress: 10.0.0.1}]",
		"routers: {name: token, address: md5}",
		"routers: [{name: a, address: [10.0.0.1, 10.0.0.2]}]",
		"bgp: {asn: [psk], gracefulRestart: {restartTme: 60}}",
		"x-all: &all {holdTime: secret, asn: [a]}\nbgp: *all",
		"x-all: &all\n  holdTime: secret\nbgp: {<<: [*all], asn: token}",
		"bgp: {passwordFrom: {secret: bgp, key: hunter2}, asn: 0}",
		"bgp: {passwordfrom: {secret: bgp, key: hunter2}, asn: 0}",
		"bgp:\n\tasn: 0",
		"bgp: {asn: 1 # the rest\n\t, multihop: 300}",
	} {
		doc := inSpec(spec)
		if got := asShown(doc); got != strings.TrimSuffix(string(doc.Data), "\n") {
			t.Errorf("of\n%s\nis shown\n%s", doc.Data, got)
		}
		if _, problems := Load(doc); strings.Contains(problems.String(), NotShown) {
			t.Errorf("%s: %v", spec, problems)
		}
	}
}

// A word that people call a password by is no misspelling of a key that has a type of its own.
func TestNoPasswordIsTakenForAMisspeltKey(t *testing.T) {
	for _, word := range []string{
		"password", "passwd", "passwrd", "pasword", "pass", "pwd", "pw", "passphrase", "bgpPassword", "bgp_password", "md5", "md5Key", "tcp-md5-key", "authentication-key", "auth",
		"authKey", "auth-key", "key", "keys", "apiKey", "privateKey", "psk", "secret", "secrets", "secert", "token", "credentials", "cred", "pin", "hash", "hmac", "user", "login", "bmcPassword", "ipmiPass", "tcpAO",
	} {
		for typ, all := range fieldsByType {
			if meant := evident(word, all.keys()); meant != "" && meant != "key" && typ != secretKeyType && within(typ.FieldByIndex(all[meant].index).Type) != secretKeyType {
				t.Errorf("%s: %s is taken for %s", typ, word, meant)
			}
		}
	}
}

// Where there is no YAML, words tell; where there is, none does.
func TestOfWhatIsNoYAMLLinesWithAWordThatTellsOfASecretAreHidden(t *testing.T) {
	doc := Document{"a", []byte(`a: b
Password:
  - x:
    y

  more
md5-key: hunter2
PSK [
  hunter2
zone: : a
 - the token: x
- secret: a
  beside: b
`)}
	want := strings.ReplaceAll(`a: b
-
-
-
-
-
-
-
-
zone: : a
-
-
  beside: b`, "-", LineNotShown)
	if got := asShown(doc); got != want {
		t.Errorf("shown is\n%s", got)
	}
	doc = Document{"a", []byte("token: x\n---\n{a: b}\n---\nx: [\ntoken: hunter2\n")}
	if got, want := asShown(doc), "token: (not shown)\n---\n{a: (not shown)}\n---\nx: [\n"+LineNotShown; got != want {
		t.Errorf("shown is\n%s", got)
	}
	if got := asShown(Document{"a", []byte("{kind: b} password: hunter2\n")}); got != LineNotShown {
		t.Errorf("shown is\n%s", got)
	}
}

// A problem in a document that is not YAML tells nothing of a line that is hidden, and all of any other.
func TestOfWhatIsNoYAMLOnlyTheLineOfASecretIsHidden(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\npassword: @hunter2\n": "a:2:11: error[P0101]: is not YAML; accepted: YAML or JSON",
		"password: b\na: @b\n":       `a:2:4: error[P0101]: is not YAML: found character that cannot start any token, while scanning for the next token; accepted: YAML or JSON; did you mean "a: \"@b\""?`,
	} {
		if _, problems := Parse(Document{"a", []byte(text)}); problems.String() != want {
			t.Errorf("of\n%s\nis told\n%v", text, problems)
		}
	}
}

// Only what may be a password is left out of a line, and of comments those that tell of one.
func TestTheRestOfALineIsShown(t *testing.T) {
	for text, want := range map[string]string{
		`  bgp: {asn: 1, md5: "hunter2", multihop: x} # why`: `  bgp: {asn: 1, md5: (not shown), multihop: x} # (not shown)`,
		"  bgp: {ä: é, md5: é, multihop: x}":                 "  bgp: {(not shown): (not shown), md5: (not shown), multihop: x}",
		"  bgp: {asn: 1} # the password is hunter2":          "  bgp: {asn: 1} # (not shown)",
		"  bgp: {asn: 1} # not this\n  #token: x":            "  bgp: {asn: 1} # not this\n  #(not shown)",
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
