package document_test

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// Whose an address is, and what a unit is too high for, is told; and of what would do, that it
// is one of many.
func TestProblemsSayWhoseAndCallAGuessOne(t *testing.T) {
	for spec, want := range map[string]string{
		"racks: [{name: r1, machines: [{name: w1, addresses: [10.1.1.1]}, {name: w2, addresses: [10.1.1.1]}]}]":                 `is the address of machine w1 too; got "10.1.1.1"; accepted: an address that is used once; for example "10.1.1.2"`,
		"routers: [{name: tor, address: 10.1.1.1, asn: 1}]\nracks: [{name: r1, machines: [{name: w2, addresses: [10.1.1.1]}]}]": "is the address of router tor too",
		"pools: [{name: a, addresses: [10.1.1.0/24]}]\nracks: [{name: r1, machines: [{name: w2, addresses: [10.1.1.1]}]}]":      `holds 10.1.1.1, the address of machine w2; got "10.1.1.0/24"`,
		"racks: [{name: r1, units: 12, machines: [{name: w2, unit: 13, addresses: [10.1.1.1]}]}]":                               "unit: is above the top of the rack, which has 12 units",
		"racks: [{name: r1, machines: [{name: w1, addresses: [10.1.1.1]}, {name: w1, addresses: [10.1.1.2]}]}]":                 `for example "w2"`,
		"labels: {kubernetes.io/hostname: a}":        `is filled from the machine's name; got "kubernetes.io/hostname"; accepted: labels that nothing else fills`,
		"labels: {plinth.dev/rack: a}":               `is filled from the rack's name`,
		"labels: {topology.kubernetes.io/region: a}": `did you mean "spec.region"?`,
	} {
		if _, problems := document.Load(inventorytest.Document(spec + "\n")); !strings.Contains(problems.String(), want) || strings.Contains(problems.String(), "the machine's name\"?") {
			t.Errorf("%s:\n%v\nwant %s", spec, problems, want)
		}
	}
	if _, problems := document.Load(document.Document{Source: "a", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nspec: {}\n")}); !strings.Contains(problems.String(), `for example "name: dc1"`) {
		t.Errorf("%v", problems)
	}
}
