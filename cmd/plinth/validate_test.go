package main

import (
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// What a pool had before it is not refused for, and what it gets it is; a warning names pool, block and who has it.
func TestValidateWarnsOfWhatTheClusterHasOfPools(t *testing.T) {
	load := func(addresses string) *inventory.Inventory {
		inv, problems := inventory.Load(inventory.Document{Source: "dc1.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
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
