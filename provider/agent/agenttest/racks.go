package agenttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Selecting is the inventory of OneRack, with advertisements that select Services by these
// labels.
func Selecting(t testing.TB, labels ...string) *inventory.Inventory {
	t.Helper()
	inv := *OneRack(t, inventory.ModeDirect)
	inv.Pools = slices.Clone(inv.Pools)
	var all []inventory.Advertise
	for _, l := range labels {
		a := inv.Pools[0].Advertise[0]
		a.Selector.MatchExpressions = []inventory.Requirement{{Key: l, Operator: inventory.OpExists}}
		all = append(all, a)
	}
	inv.Pools[0].Advertise = all
	return Reparsed(t, &inv)
}

// OneRack is a rack of w1 to w4 on one subnet, whose pods are in the mode; none: a CNI routes them.
func OneRack(t testing.TB, mode inventory.Mode) *inventory.Inventory {
	t.Helper()
	network := fmt.Sprintf("  podNetwork: {mode: %s, cidrs: [10.244.0.0/16]}\n", mode)
	if mode == inventory.ModeNone {
		network = ""
	}
	inv, problems := document.Load(document.Document{Source: "rack.yaml", Data: []byte(strings.Replace(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 65010}
NETWORK  routers: [{name: tor, address: 10.1.0.1, asn: 65001}]
  pools: [{name: public, addresses: [203.0.113.0/25]}]
  racks:
    - name: r1
      subnets: [10.1.0.0/24]
      machines:
        - {name: w1, addresses: [10.1.0.11]}
        - {name: w2, addresses: [10.1.0.12]}
        - {name: w3, addresses: [10.1.0.13]}
        - {name: w4, addresses: [10.1.0.14]}
`, "NETWORK", network, 1))})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

// Reparsed is an inventory as agents read it.
func Reparsed(t testing.TB, inv *inventory.Inventory) *inventory.Inventory {
	t.Helper()
	out, problems := document.ParseAccepted(document.Document{Source: "test", Data: document.FormatAccepted(inv)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
