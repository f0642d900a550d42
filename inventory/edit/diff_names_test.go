package edit

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestWhatHasAnotherNameIsToldOfSo(t *testing.T) {
	const base = `
bgp: {asn: 65010}
communities: {site: "65010:100", lab: "65010:200"}
routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
pools:
	- {name: public, addresses: [203.0.113.0/25], advertise: {racks: [r01], routers: [tor], communities: [site]}}
	- {name: private, addresses: [10.9.0.0/24]}
storage: [{name: nas, rack: r01, nfs: {server: 10.1.0.9}}]
racks:
	- {name: r01, zone: a, machines: [{name: a, addresses: [10.1.1.1]}, {name: b, addresses: [10.1.1.2]}]}
	- {name: r02, zone: b, machines: [{name: c, addresses: [10.1.1.3]}]}
`
	for _, c := range []struct {
		what string
		with []string
		want string
	}{
		{"nothing", nil, ""},
		{"a rack", []string{"r01", "r07"}, "rack r01 is called r07 now: the same machines"},
		{"a rack that moves to another row, too", []string{"r01, zone", "r07, row: x, zone", "rack: r01", "rack: r07", "[r01]", "[r07]"},
			"rack r01 is called r07 now: the same machines\nspec.racks[r07].row is set to x"},
		{"a rack whose name is its zone", []string{"name: r02, zone: b", "name: r09, zone: r09"}, "rack r02 is called r09 now: the same machines\nspec.racks[r09].zone: b -> r09"},
		{"a rack, and what is announced there goes by the old name", []string{"r01, zone", "r07, zone", "rack: r01", "rack: r07", "racks: [r01]", "racks: [r02]"},
			"rack r01 is called r07 now: the same machines\npool public is changed\n  advertise.racks: [r07] -> [r02]"},
		{"two racks swap their names", []string{"r01", "\x00", "r02", "r01", "\x00", "r02"}, "rack r01 is called r02 now: the same machines\nrack r02 is called r01 now: the same machines"},
		{"a rack and a machine in it", []string{"r02", "r07", "name: c,", "name: d, id: c,"}, "rack r02 is called r07 now: the same machines\nmachine c of rack r07 is called d now: the same addresses. Its Node, providerID and pod CIDRs stay"},
		{"a rack, and a machine leaves it", []string{"r02, zone: b, machines: [", "r07, zone: b, machines: [{name: b, addresses: [10.1.1.2]}, ", ", {name: b, addresses: [10.1.1.2]}]}\n\t- {name: r07", "]}\n\t- {name: r07"},
			"machine b moves to rack r07\n  rack: r01 -> r07\nmachine c moves to rack r07\n  rack: r02 -> r07\n" +
				"spec.racks[r02].asn is no longer 65010\nspec.racks[r02].name is no longer r02\nspec.racks[r02].peers is no longer [tor]\nspec.racks[r02].zone is no longer b\n" +
				"spec.racks[r07].asn is set to 65010\nspec.racks[r07].name is set to r07\nspec.racks[r07].peers is set to [tor]\nspec.racks[r07].zone is set to b"},
		{"a pool", []string{"public", "open"}, "pool public is called open now: the same addresses"},
		{"a pool that is not given by itself any more", []string{"name: public,", "name: open, autoAssign: false,"}, "pool public is called open now: the same addresses\npool open is changed\n  autoAssign is set to false"},
		{"two pools swap their names", []string{"public", "\x00", "private", "public", "\x00", "private"}, "pool private is called public now: the same addresses\npool public is called private now: the same addresses"},
		{"a pool has the name and another the addresses", []string{"\t- {name: private, addresses: [10.9.0.0/24]}\n", "", "name: public", "name: private"},
			"pool private is shrunk: gains 203.0.113.0/25, loses 10.9.0.0/24, of which none is announced any more\n  addresses: [10.9.0.0/24] -> [203.0.113.0/25]\n" +
				"  advertise.communities is set to [65010:100]\n  advertise.racks is set to [r01]\n  advertise.routers is set to [tor]\n" +
				"pool public is removed: gives 203.0.113.0/25 to pool private"},
		{"a pool with more addresses", []string{"name: public, addresses: [203.0.113.0/25]", "name: open, addresses: [203.0.113.64-203.0.113.200]"},
			"pool open is added: gains 203.0.113.64-203.0.113.200\npool public is removed: gives 203.0.113.64/26 to pool open, loses 203.0.113.0/26, of which none is announced any more"},
		{"a community", []string{"site", "campus"}, "community site is called campus now: the same value"},
		{"two communities have one value", []string{"site: ", "other: \"65010:100\", campus: ", "[site]", "[campus]"},
			"spec.communities.campus is set to 65010:100\nspec.communities.other is set to 65010:100\nspec.communities.site is no longer 65010:100"},
		{"a router", []string{"name: tor", "name: leaf", "[tor]", "[leaf]"}, "session of a with tor (10.1.0.1) stays up under the name leaf\nsession of b with tor (10.1.0.1) stays up under the name leaf\nsession of c with tor (10.1.0.1) stays up under the name leaf"},
	} {
		spec := base
		for i := 0; i < len(c.with); i += 2 {
			if !strings.Contains(spec, c.with[i]) {
				t.Fatalf("%s: there is no %q", c.what, c.with[i])
			}
			spec = strings.ReplaceAll(spec, c.with[i], c.with[i+1])
		}
		before, after := inventorytest.Of(t, base), inventorytest.Of(t, spec)
		if got := Diff(before, after).String(); got != c.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.what, got, c.want)
		}
		if !document.Equal(before, inventorytest.Of(t, base)) {
			t.Errorf("%s: what is compared has changed", c.what)
		}
	}
}

// Its sessions tell of a router's name, where it has any.
func TestARouterThatNobodyPeersWithIsToldOfUnderItsNewName(t *testing.T) {
	const base = "bgp: {asn: 65010}\nrouters: [{name: tor, address: 10.1.0.1, asn: 65101}, {name: spare, address: 10.1.0.9, asn: 65101}]\n" +
		"racks: [{name: r01, peers: [tor], machines: [{name: a, addresses: [10.1.1.1]}]}]\n"
	got := Diff(inventorytest.Of(t, base), inventorytest.Of(t, strings.Replace(base, "spare", "extra", 1))).String()
	if want := "router spare is called extra now: the same addresses"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
