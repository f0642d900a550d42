package inventory_test

import (
	"slices"
	"testing"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestASliceHasTheRoutersThatItsRackPeersWith(t *testing.T) {
	inv := inventorytest.Of(t, `
bgp: {asn: 65010}
routers: [{name: core, address: 10.0.0.1, asn: 65000}]
pools: [{name: public, addresses: [203.0.113.0/24]}]
racks:
	- {name: r01, routers: [{name: tor-1, address: 10.1.0.1, asn: 65101}], peers: [tor-1, tor-2, core], machines: [{name: w1, addresses: [10.1.1.1]}]}
	- {name: r02, routers: [{name: tor-2, address: 10.2.0.1, asn: 65102}], machines: [{name: w2, addresses: [10.2.1.1]}]}
`)
	common := document.Document{Source: "common", Data: document.FormatAccepted(inv.Common())}
	one := document.Document{Source: "r01", Data: document.FormatAccepted(inv.Slice("r01"))}
	other := document.Document{Source: "r02", Data: document.FormatAccepted(inv.Slice("r02"))}

	agent, problems := document.ParseAccepted(common, one)
	if agent == nil {
		t.Fatal(problems)
	}
	w1, _ := agent.Machine("w1")
	if got := agent.Sessions(w1); len(got) != 3 {
		t.Errorf("the agent sees the sessions %+v", got)
	}
	for _, docs := range [][]document.Document{{common, one, other}, {other, one, common}} {
		whole, problems := document.ParseAccepted(docs...)
		if whole == nil || !document.Equal(whole, inv) {
			t.Errorf("%v\n%s", problems, document.FormatAccepted(whole))
		}
	}
	if got := inv.Common().Size(); got != 0 {
		t.Errorf("what is common has %d machines", got)
	}
	if nothing := inv.Slice("r99"); nothing.Size() != 0 || len(nothing.Routers) != 0 {
		t.Errorf("the slice of a rack that there is not: %s", document.Format(nothing))
	}
}

func TestASliceNamesTheRacksOnItsSubnets(t *testing.T) {
	inv := inventorytest.Of(t, `
bgp: {asn: 65010}
racks:
	- {name: a, subnets: [10.1.0.0/24, "fd01::/64"], machines: [{name: w1, addresses: [10.1.0.1, "fd01::1"]}]}
	- {name: b, subnets: [10.1.0.0/24], machines: [{name: w2, addresses: [10.1.0.2]}]}
	- {name: c, subnets: ["fd01::/64"], machines: [{name: w3, addresses: ["fd01::3"]}]}
	- {name: d, subnets: [10.2.0.0/24], machines: [{name: w4, addresses: [10.2.0.4]}]}
	- {name: e, machines: [{name: w5, addresses: [10.1.0.5]}]}
`)
	parts := []document.Document{{Source: "common", Data: document.FormatAccepted(inv.Common())}}
	for rack, want := range map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"a"}, "d": nil, "e": nil} {
		slice := document.Document{Source: rack, Data: document.FormatAccepted(inv.Slice(rack))}
		parts = append(parts, slice)
		agent, problems := document.ParseAccepted(parts[0], slice)
		if agent == nil {
			t.Fatal(problems)
		}
		r, _ := agent.Rack(rack)
		if !slices.Equal(r.Neighbours, want) {
			t.Errorf("rack %s has the neighbours %q, want %q", rack, r.Neighbours, want)
		}
	}
	if whole, problems := document.ParseAccepted(parts...); whole == nil || !document.Equal(whole, inv) {
		t.Errorf("%v\n%s", problems, document.FormatAccepted(whole))
	}
	if _, problems := document.Parse(document.Document{Source: "x", Data: document.FormatAccepted(inv.Slice("a"))}); len(problems.Errors()) == 0 {
		t.Error("a person may write what Plinth alone knows")
	}
}
