package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// What a pool had before it is not refused for, and what it gets it is; a warning names pool, block and who has it.
func TestValidateWarnsOfWhatTheClusterHasOfPools(t *testing.T) {
	load := func(addresses string) *inventory.Inventory {
		inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
			"  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n  racks: [{name: r01, machines: [{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [" + addresses + "]}]\n")})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return inv
	}
	block := netip.MustParsePrefix
	c := preview.Cluster{Taken: []lb.Taken{
		{Prefix: block("192.0.2.0/25"), Who: "the pods of node m1"}, {Prefix: block("192.0.2.200/32"), Who: "node stranger"},
		{Prefix: block("198.51.100.7/32"), Who: "the externalIPs of service d/x", Service: lb.ServiceKey{Namespace: "d", Name: "x"}, Proxied: true},
	}}
	const pods, stranger = "192.0.2.0/25 of the pods of node m1", "192.0.2.200/32 of node stranger"
	for _, tt := range []struct {
		before, after string
		want          []string
	}{
		{"192.0.2.0/24", "192.0.2.0/24", []string{"warning[P1019]: spec.pools[public].addresses: has " + pods + ", " + stranger + ", so that no VIP is given from there; accepted: pools beside them, or exclude"}},
		{"192.0.2.0/24", "192.0.2.0/24], exclude: [192.0.2.0/25", []string{"warning[P1019]: spec.pools[public].addresses: has " + stranger + ", so that no VIP is given from there; accepted: pools beside them, or exclude"}},
		{"203.0.113.0/24", "192.0.2.128/25", []string{"error[P1017]: spec.pools: gives pools addresses that the cluster has, 1 times: pool public takes " + stranger + "; accepted: pools beside them, or exclude, or if it is meant: plinth allow 5a1be86842dbee26"}},
		{"203.0.113.0/24", "198.51.100.0/24", []string{"warning[P1019]: spec.pools[public].addresses: has 198.51.100.7/32 of the externalIPs of service d/x, so that no VIP is given from there; accepted: pools beside them, or exclude"}},
		{"203.0.113.0/24", "203.0.113.0/25", nil},
	} {
		r := report{edit: source.Edit{}, inventory: load(tt.after)}
		r.against(load(tt.before), &c)
		var got []string
		for _, p := range r.problems {
			got = append(got, p.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.after, got, tt.want)
		}
	}
}

// A match that several Nodes of the cluster fit tells none of them: it is warned of, whichever way it is written, and only there.
func TestValidateWarnsOfAMatchThatSeveralNodesFit(t *testing.T) {
	const shared, own = "03000200-0400-0500-0006-000700080009", "4c4c4544-0032-3010-8053-b7c04f585931"
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  racks: [{name: r01, subnets: [10.10.1.0/24], machines: [\n" +
		"    {name: w1, addresses: [10.10.1.11], match: {systemUUID: \"03000200040005000006000700080009\"}}, {name: w2, addresses: [10.10.1.12], match: {systemUUID: " + own + "}}, {name: w3, addresses: [10.10.1.13]}]}]\n")})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	reports := func(uuid string, also bool) preview.Node {
		return preview.Node{Identity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(uuid), UUIDShared: also}}
	}
	r := report{edit: source.Edit{}, inventory: inv}
	r.against(inv, &preview.Cluster{Nodes: map[string]preview.Node{
		"w3": reports(shared, true), "w1": reports(shared, true), "w2": reports(own, false), "stranger": reports("Not Settable", true),
	}})
	const want = `warning[P1020]: spec.racks[r01].machines[w1].match.systemUUID: is what nodes w1, w3 report: a number that several boards have decides nothing`
	if len(r.problems) != 1 || !strings.HasPrefix(r.problems[0].String(), want) {
		t.Errorf("got %v\nwant %s", r.problems, want)
	}
}
