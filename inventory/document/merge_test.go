package document_test

import (
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestAnySectionMayBeSplitOverDocuments(t *testing.T) {
	part := func(source, spec string) document.Document {
		d := inventorytest.Document(spec)
		d.Source = source
		return d
	}
	docs := []document.Document{
		part("a", "bgp: {asn: 65010, passwordFrom: {secret: bgp}}\nlabels: {x: one}\nexpect: {racks: [r02]}\npodNetwork: {cidrs: [10.244.0.0/16]}\nracks: [{name: r01}]\n"),
		part("b", "bgp: {holdTime: 3s, passwordFrom: {key: tor}}\nlabels: {y: two}\nexpect: {racks: [r01]}\npodNetwork: {mode: fabric}\nracks: [{name: r02}]\n"),
		part("c", "routers: [{name: t1, address: 10.1.1.1, asn: 65101}]\ncommunities: {lab: \"65010:1\"}\n"),
	}
	inv, problems := document.Parse(docs...)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	o := inv.BGP.Session
	if inv.BGP.ASN != 65010 || o.HoldTime.Value != 3*time.Second || o.Password.Value != (inventory.SecretKey{Secret: "bgp", Key: "tor"}) || len(inv.NodeLabels) != 2 ||
		strings.Join(inv.Expect.Racks, " ") != "r01 r02" || inv.PodNetwork.Mode != inventory.ModeFabric || len(inv.Racks) != 2 || len(inv.Routers) != 1 || len(inv.Communities) != 1 {
		t.Errorf("%s", document.Format(inv))
	}
}

func TestASettingIsGivenOnce(t *testing.T) {
	for _, spec := range []string{
		"region: a", "safety: {maxRemoved: 1}", "bgp: {asn: 65010}", "bgp: {gracefulRestart: off}", "bgp: {advertise: {podCIDRs: true}}",
		"podNetwork: {mode: direct}", "podNetwork: {mode: direct, cidrs: [10.0.0.0/8]}", "podNetwork: {mode: direct, nodePrefix: {ipv4: 24}}",
	} {
		_, problems := document.Parse(document.Document{Source: "a", Data: inventorytest.Document(spec).Data}, document.Document{Source: "b", Data: inventorytest.Document(spec).Data})
		if len(problems) == 0 || problems[0].Code != inventory.GivenTwice || problems[0].Source != "b" || problems[0].Related[0].Source != "a" {
			t.Errorf("%s in two documents: %v", spec, problems)
		}
	}
}

func TestNamesAreUniqueAcrossDocuments(t *testing.T) {
	for _, spec := range []string{
		"labels: {a: b}", "communities: {a: \"1:2\"}", "racks: [{name: a}]", "pools: [{name: a, addresses: [10.0.0.0/24]}]",
		"routers: [{name: a, address: 10.0.0.1, asn: 65010}]", "bfdProfiles: [{name: a, interval: 100ms}]",
	} {
		_, problems := document.Parse(document.Document{Source: "a", Data: inventorytest.Document(spec).Data}, document.Document{Source: "b", Data: inventorytest.Document(spec).Data})
		if !strings.Contains(problems.String(), "["+string(inventory.NameTwice)+"]") {
			t.Errorf("%s in two documents: %v", spec, problems)
		}
	}
}

// A rack that is given twice, with more machines the second time, made Parse panic.
func TestARackIsGivenTwiceWithMoreMachines(t *testing.T) {
	const text = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  routers: [{name: tor, address: 10.1.0.1, asn: 65101}]\n" +
		"  racks: [{name: r01, machines: [{name: w1, addresses: [10.1.0.11]}]}, {name: r01, machines: [{name: w2, addresses: [10.1.0.12]}, {name: w3, addresses: [10.1.0.13]}]}]\n"
	if _, problems := document.Parse(document.Document{Source: "twice", Data: []byte(text)}); len(problems) != 1 || problems[0].Code != inventory.NameTwice {
		t.Errorf("%v", problems)
	}
}
