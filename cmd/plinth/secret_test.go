package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory/source"
)

const canary = "hunter2"

// spellings are what people write in the place of passwordFrom, below spec.
var spellings = []struct{ name, spec string }{
	{"a password", "bgp: {password: hunter2}"},
	{"beside a typo", "bgp: {asn: 1, password: hunter2, holdtme: 9s}"},
	{"beside a typo, misspelt", "bgp: {asn: 1, passwrd: hunter2, holdtme: 9s}"},
	{"beside a typo, badly misspelt", "bgp: {asn: 1, pazswrod: hunter2, holdtme: 9s}"},
	{"as routers have it", "bgp: {md5: hunter2}"},
	{"as RouterOS has it", "bgp: {tcp-md5-key: hunter2, holdtme: 9s}"},
	{"as Junos has it", "bgp: {authentication-key: hunter2, holdtme: 9s}"},
	{"a key", "bgp: {key: hunter2, holdtme: 9s}"},
	{"a secret, misspelt", "bgp: {secert: hunter2, holdtme: 9s}"},
	{"in capitals and quotes", `bgp: {"BGP_PASSWORD": "hunter2", holdtme: 9s}`},
	{"text", "bgp: {passwordFrom: hunter2}"},
	{"text on a line of its own", "bgp:\n    passwordFrom:\n      hunter2"},
	{"a list", "bgp: {passwordFrom: [hunter2]}"},
	{"a mapping by mistake", "bgp: {passwordFrom: {hunter2}}"},
	{"a key by mistake", "bgp: {passwordFrom: {hunter2: secret}}"},
	{"a tag", "bgp: {passwordFrom: !hunter2 x}"},
	{"no name of a Secret", "bgp: {passwordFrom: {secret: hunter2_!, key: k}}"},
	{"no key of a Secret", "bgp: {passwordFrom: {secret: s, key: \"hunter2 !\"}}"},
	{"a number", "bgp: {passwordFrom: {secret: s, key: !!int hunter2}}"},
	{"an alias", "x-p: &p hunter2\n  bgp: {passwordFrom: *p}"},
	{"the line after", "bgp: {password:\n    hunter2, holdtme: 9s}"},
	{"text of several lines", "bgp: {password: \"a\n    hunter2\", holdtme: 9s}"},
	{"no colon", "bgp: {password hunter2, holdtme: 9s}"},
	{"no colon, but an equals sign", "bgp: {password=hunter2, holdtme: 9s}"},
	{"no mapping", "bgp: password hunter2"},
	{"in a machine", "racks: [{name: r, machines: [{name: w1, adresses: [10.0.0.1], bmcPassword: hunter2}]}]"},
	{"beside what has a type", "labels: {a: !!binary x, b b: y}\n  bgp: {pw: hunter2, asnn: 1}"},
	{"a short tag", "bgp: {passwordFrom: !!hunter2 x}"},
	{"of a router", "routers: [{name: tor, password: hunter2, adress: 10.0.0.1}]"},
	{"no YAML", "bgp: {password: @hunter2}"},
	{"no YAML, on a line of its own", "bgp:\n    password:\n      @hunter2"},
	{"an alias of nothing", "bgp: {password: *hunter2}"},
	{"a bracket too few", "bgp: {passwordFrom: [hunter2}"},
	{"a comment", "bgp: {holdtme: 9s} # password: hunter2"},
}

func TestNoOutputTellsAPassword(t *testing.T) { noPasswordIsTold(t, false) }

func TestNoOutputTellsAPasswordInAConfigMap(t *testing.T) { noPasswordIsTold(t, true) }

func noPasswordIsTold(t *testing.T, inConfigMap bool) {
	t.Helper()
	for _, s := range spellings {
		t.Run(s.name, func(t *testing.T) {
			text := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  " + s.spec + "\n"
			if inConfigMap {
				text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {plinth.dev/inventory: dc1}}\ndata:\n  a.yaml: |\n    " + strings.ReplaceAll(text, "\n", "\n    ")
			}
			r := report{edit: source.ReadText("a.yaml", []byte(text))}
			r.inventory, r.problems = loaded(r.edit)
			if len(r.problems) == 0 {
				t.Fatal("there is no problem to tell")
			}
			said := map[string]string{"Problem.String": r.problems.String()}
			for name, write := range writers {
				var b bytes.Buffer
				if err := write(&b, r); err != nil {
					t.Fatal(err)
				}
				said[name] = b.String()
			}
			for name, out := range said {
				if strings.Contains(out, canary) {
					t.Errorf("%s tells the password:\n%s", name, out)
				}
			}
		})
	}
}

func TestLinesWithoutPasswordAreShown(t *testing.T) {
	for _, line := range []string{
		"bgp: {holdTime: 9}",
		"pools: [{name: a, addresses: [10.0.0.1/24], serviceSelector: {matchExpressions: [{key: tier, operator: In, values: [a]}]}}]",
		"routers: [{name: tor, address: 10.0.0.1/8, asn: 1}]",
	} {
		text := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  " + line + "\n"
		r := report{edit: source.ReadText("a.yaml", []byte(text))}
		r.inventory, r.problems = loaded(r.edit)
		var b bytes.Buffer
		if err := writeText(&b, r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), line) {
			t.Errorf("the line is not shown:\n%s", b.String())
		}
	}
}

// passwordKeys are what people call a password, as they write it.
var passwordKeys = []string{"password", "Password", "passwd", "pass", "passwrd", "psk", "md5", "secret", "secrets", "token", "auth-key", "authentication-key", "tcp-md5-key", "privateKey", "key", "pw", "pwd", "pasword", "hmac", "credential"}

// written are ways to write a key and its password, in a list, a mapping or by mistake. KEY and
// WORD are the two.
var written = []string{
	"KEY: WORD", "KEY: \"WORD\"", "KEY: 'WORD'", "{KEY: WORD}", "{a: b, KEY: WORD}", "{KEY: WORD, a: b}", "{\"KEY\": \"WORD\"}", "KEY: [WORD]", "KEY: {a: WORD}", "KEY: {WORD: a}",
	"KEY:\n  WORD", "KEY:\n  - WORD", "KEY:\n  a: WORD", "KEY: |\n  WORD", "KEY: >-\n  WORD\n  more", "KEY: \"a\n  WORD\"", "{KEY: \"a\n  WORD\", c: d}", "{KEY:\n  WORD, c: d}",
	"KEY WORD", "- KEY WORD", "- KEY: WORD", "- {KEY: WORD}", "- [KEY, WORD]", "[KEY WORD]", "{KEY WORD}", "KEY=WORD", "KEY = WORD", "a: b # KEY: WORD", "# KEY WORD", "KEY: \"a # b\" # was WORD", "KEY: !WORD x", "KEY: &WORD x", "? KEY\n: WORD",
	"KEY: @WORD", "KEY: *WORD", "KEY: {WORD", "KEY: [WORD", "{KEY: WORD", "KEY: \"WORD", "KEY: WORD: x", "KEY: WORD\n\tx: y",
}

// around are places of an inventory where somebody may write one, and where the schema has nothing of that name. HERE is the place.
var around = []string{
	"bgp:\n  HERE", "bgp:\n  asn: 1\n  HERE\n  holdtme: 9s", "bgp: HERE", "bgp: [HERE]", "routers:\n  - name: tor\n    HERE\n    adress: 10.0.0.1", "routers:\n  - HERE\n    name: tor",
	"racks:\n  - name: r1\n    machines:\n      - name: w1\n        HERE\n        taints: [{key: dedicated, efect: NoSchedule}]",
	"racks:\n  - name: r1\n    machines:\n      - {name: w1, taints: [{key: a, effect: b}], x: HERE}",
	"pools:\n  - name: a\n    namespaces: [keycloak, external-secrets]\n    HERE", "bgp:\n  passwordFrom:\n    HERE",
	"taints:\n  - key: a\n    efect: b\n  - HERE",
}

// written in a place of an inventory.
func inventoryWith(written, place string) string {
	before, _, _ := strings.Cut(place, "HERE")
	last := before[strings.LastIndex(before, "\n")+1:]
	indent := strings.Repeat(" ", len(last))
	if begun := strings.TrimLeft(last, " -"); begun != "" {
		indent = strings.Repeat(" ", len(last)-len(strings.TrimLeft(last, " "))+2)
	}
	spec := strings.Replace(place, "HERE", strings.ReplaceAll(written, "\n", "\n"+indent), 1)
	return "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
}

// told is what is printed of an inventory: the lines, and what all forms of output tell.
func told(t interface{ Fatal(...any) }, text string) string {
	r := report{edit: source.ReadText("a.yaml", []byte(text))}
	r.inventory, r.problems = loaded(r.edit)
	var b bytes.Buffer
	if err := writeText(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String() + r.problems.String()
}

// promised reports whether the password of a text is to be hidden. It is wherever the schema gives it no type; in the place of
// passwordFrom the names of a Secret have one. In a comment, and in what is no YAML, a word beside it tells.
func promised(key, text, place string) bool {
	if strings.Contains(place, "passwordFrom") && (key == "key" || key == "secret") {
		return false
	}
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) == nil && !strings.Contains(text, "#") {
		return true
	}
	before, after, _ := strings.Cut(text, canary)
	line, _, _ := strings.Cut(after, "\n")
	line = strings.ToLower(before[strings.LastIndex(before, "\n")+1:] + line)
	return slices.ContainsFunc(passwordKeys, func(key string) bool { return key != "key" && strings.Contains(line, strings.ToLower(key)) }) // of taints and selectors, too
}

// However a password is written, wherever it stands, and whatever else is wrong there:
// nothing that is printed has it.
func TestNoPasswordIsShownHoweverItIsWritten(t *testing.T) {
	for _, place := range around {
		for _, form := range written {
			for _, key := range passwordKeys {
				text := inventoryWith(strings.NewReplacer("KEY", key, "WORD", canary).Replace(form), place)
				if out := told(t, text); strings.Contains(out, canary) && promised(key, text, place) {
					t.Errorf("the password is told of\n%s\n%s", text, out)
					break // one of each is enough to read
				}
			}
		}
	}
}

// slipped is a text of which one mark is left out, or in which there is one too many.
func slipped(text string, at int, mark byte) string {
	const marks = "{}[]:,\"'#-\n \t|>&*!?@="
	begin := strings.Index(text, "spec:")
	at = begin + at%(len(text)-begin)
	if inWord := text[at] >= 'A' && text[at] <= 'Z'; !inWord && strings.IndexByte(marks, mark) >= 0 {
		return text[:at] + string(mark) + text[at:]
	}
	if strings.IndexByte(marks, text[at]) >= 0 {
		return text[:at] + text[at+1:]
	}
	return text
}

// A bracket, a quote, a colon, a blank or a line break too few or too many makes no password
// known, either.
func FuzzNoPasswordIsShown(f *testing.F) {
	for seeds, i := rand.New(rand.NewPCG(1, 1)), 0; i < 1000; i++ {
		f.Add(seeds.Uint32(), seeds.Uint32(), byte("{}[]:,\"'#-\n \t|>&*!?@=xxxxxxxxxxxx"[seeds.IntN(32)]))
	}
	f.Fuzz(func(t *testing.T, which, at uint32, mark byte) {
		n := int(which)
		place, form, key := around[n%len(around)], written[n/97%len(written)], passwordKeys[n/9973%len(passwordKeys)]
		text := slipped(inventoryWith(form, place), int(at), mark)
		if strings.Contains(text, "KEYWORD") {
			return // of one word nobody knows where the password begins
		}
		text = strings.NewReplacer("KEY", key, "WORD", canary).Replace(text)
		if out := told(t, text); strings.Contains(out, canary) && promised(key, text, place) {
			t.Fatalf("the password is told of\n%s\n%s", text, out)
		}
	})
}
