package edit

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// TestNoAddressChangesItsWayUnasked: what asks is via, in a word that is new or that names the new way.
func TestNoAddressChangesItsWayUnasked(t *testing.T) {
	// The pool lies in the rack's subnet, where that is told.
	of := func(subnet, via, routers string) string {
		return fmt.Sprintf("bgp: {asn: 65010}\nracks:\n- {name: r1, multihop: 2, subnets: [%s], machines: [{name: w1, addresses: [10.1.1.11]}], routers: [%s]}\npools:\n- {name: a, addresses: [10.1.1.200-10.1.1.210, 203.0.113.0/24]%s}\n",
			subnet, routers, via)
	}
	const subnet, tor, link, bgp = "10.1.1.0/24", "{name: tor, address: 10.9.0.1, asn: 65101}", ", advertise: {via: link}", ", advertise: {via: bgp}"
	for _, c := range []struct {
		what, before, after string
		switches            string // empty: nothing does
	}{
		{"a rack gets the subnet", of("", "", ""), of(subnet, "", ""), "BGP to the link 10.1.1.0/24"},
		{"a rack loses the subnet", of(subnet, "", ""), of("", "", ""), "the link 10.1.1.0/24 to BGP"},
		{"a rack gets the subnet, and the pool stays", of("", "", ""), of(subnet, bgp, ""), ""},
		{"a rack gets the subnet, and the pool asks for it", of("", "", ""), of(subnet, link, ""), ""},
		{"a rack of a pool that stays gets the subnet", of("", bgp, ""), of(subnet, bgp, ""), ""},
		{"a rack loses the subnet of a pool on the link", of(subnet, link, ""), of("", "", ""), ""}, // its via is taken away
		{"a pool asks for the link", of(subnet, bgp, tor), of(subnet, link, tor), ""},
		{"a pool asks for BGP", of(subnet, link, tor), of(subnet, bgp, tor), ""},
		{"a rack gets a router, and the pool says how it is", of(subnet, "", ""), of(subnet, link, tor), ""},
		{"the last router goes, and the pool no longer says", of(subnet, bgp, tor), of(subnet, "", ""), ""},
		{"the last router goes, and the pool stays", of(subnet, bgp, tor), of(subnet, bgp, ""), ""},
		{"the subnet is another one", of(subnet, "", ""), of("10.1.0.0/16", "", ""), ""},
	} {
		before, problems := document.Load(inventorytest.Document(c.before))
		if before == nil {
			t.Fatal(c.what, problems)
		}
		next, problems := document.Load(inventorytest.Document(c.after))
		if next == nil {
			t.Fatal(c.what, problems)
		}
		after, problems := Admit(next, before)
		if after == nil {
			t.Fatal(c.what, problems)
		}
		from, to, switches := SwitchOf(netip.MustParseAddr("10.1.1.205"), after, before)
		if got := from + " to " + to; switches != (c.switches != "") || switches && got != c.switches {
			t.Errorf("%s: %v, %s", c.what, switches, got)
		}
		if _, _, switches := SwitchOf(netip.MustParseAddr("203.0.113.7"), after, before); switches {
			t.Errorf("%s: an address off every subnet switches", c.what)
		}
	}
	// A pool on the link whose subnet goes, and that still says link, goes to BGP without having asked.
	far := of(subnet, link, "") + "- {name: b, addresses: [10.1.2.200]}\n"
	moved := strings.Replace(strings.Replace(far, "203.0.113.0/24", "10.1.2.201", 1), "subnets: [10.1.1.0/24], machines: [{name: w1, addresses: [10.1.1.11]}]", "subnets: [10.1.2.0/24], machines: [{name: w1, addresses: [10.1.2.11]}]", 1)
	before, after := inventorytest.Of(t, far), inventorytest.Of(t, moved)
	if _, to, switches := SwitchOf(netip.MustParseAddr("10.1.1.205"), after, before); !switches || to != "BGP" {
		t.Errorf("the subnet of a pool on the link goes: %v, %s", switches, to)
	}
}

func TestADifferenceTellsWhatChangesItsWay(t *testing.T) {
	const spec = `
racks: [{name: shelf, subnets: [%s], machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
pools: [{name: lan, addresses: [192.168.1.200-192.168.1.219], exclude: [192.168.1.210]}]
`
	off, on := inventorytest.Of(t, fmt.Sprintf(spec, "")), inventorytest.Of(t, fmt.Sprintf(spec, "192.168.1.0/24"))
	for _, c := range []struct {
		before, after *inventory.Inventory
		want          string
	}{
		{off, on, "pool lan is changed: announces 192.168.1.200-192.168.1.209, 192.168.1.211-192.168.1.219 on the link in place of BGP\nspec.racks[shelf].subnets is set to [192.168.1.0/24]"},
		{on, off, "pool lan is changed: announces 192.168.1.200-192.168.1.209, 192.168.1.211-192.168.1.219 over BGP in place of the link\nspec.racks[shelf].subnets is no longer [192.168.1.0/24]"},
		{on, inventorytest.Of(t, fmt.Sprintf(spec, "192.168.0.0/16")), "spec.racks[shelf].subnets: [192.168.1.0/24] -> [192.168.0.0/16]"},
	} {
		if got := Diff(c.before, c.after).String(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}
