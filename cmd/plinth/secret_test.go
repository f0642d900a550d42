package main

import (
	"bytes"
	"strings"
	"testing"

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
	{"a label", "labels: {password: \"hunter2 !\"}"},
	{"a label without colon", "labels: {password hunter2: x}"},
	{"a community", "communities: {secret: hunter2}"},
	{"part of a community", "communities: {secret: \"1:hunter2\"}"},
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
		"bgp: {holdtme: 9s}",
		"pools: [{name: a, adresses: [10.0.0.0/24], serviceSelector: {matchExpressions: [{key: tier, operator: In, values: [a]}]}}]",
		"routers: [{name: tor, adress: 10.0.0.1, asn: 1}]",
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
