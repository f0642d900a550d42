package inventory_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// drawLinks draws an inventory of racks that share subnets, some of which have routers, and a pool on
// each subnet that says via: link.
func drawLinks(t *rapid.T) *inventory.Inventory {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  routers: [{name: gateway, address: 10.0.0.1, asn: 65101}]\n  racks:\n")
	n := 0
	for r := range rapid.IntRange(1, 4).Draw(t, "racks") {
		subnets := rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 3, rapid.ID).Draw(t, "subnets")
		slices.Sort(subnets)
		fmt.Fprintf(&b, "  - name: r%d\n    multihop: 2\n    subnets: [", r)
		for _, s := range subnets {
			fmt.Fprintf(&b, "10.0.%d.0/24, ", s)
		}
		b.WriteString("]\n")
		if rapid.Bool().Draw(t, "has a router") {
			fmt.Fprintf(&b, "    routers: [{name: tor%d, address: 10.0.%d.%d, asn: 65101}]\n", r, rapid.IntRange(0, 3).Draw(t, "net of the router"), 2+r)
		}
		b.WriteString("    machines:\n")
		for range rapid.IntRange(0, 3).Draw(t, "machines") {
			n++
			fmt.Fprintf(&b, "    - {name: w%d, addresses: [10.0.77.%d", n, n)
			for _, s := range subnets {
				if rapid.IntRange(0, 3).Draw(t, "is on it") > 0 {
					fmt.Fprintf(&b, ", 10.0.%d.%d", s, 10+n)
				}
			}
			fmt.Fprintf(&b, "], state: \"%s\"}\n", rapid.SampledFrom([]inventory.State{inventory.StateActive, inventory.StateOff, inventory.StatePlanned, inventory.StateRetired}).Draw(t, "state"))
		}
	}
	b.WriteString("  pools:\n  - {name: free, addresses: [203.0.113.0/24]}\n")
	for s := range 3 {
		via := rapid.SampledFrom([]string{"bgp", "link"}).Draw(t, "via")
		fmt.Fprintf(&b, "  - {name: p%d, addresses: [10.0.%d.128-10.0.%d.200, 203.0.%d.0/25], advertise: {via: %s}}\n", s, s, s, 114+s, via)
	}
	text := b.String()
	// What is refused, as an address outside the subnets or a pool on no link, is not what is looked for here.
	inv, _ := document.ParseAccepted(document.Document{Source: "drawn", Data: []byte(text)})
	if inv == nil {
		t.Fatal(text)
	}
	inv.FindLinks()
	return inv
}

// TestAMachinesLinksAreInItsSliceAsInTheWhole: agents see their rack alone, and have to come to the
// same owner.
func TestAMachinesLinksAreInItsSliceAsInTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := drawLinks(t)
		parts := []document.Document{{Source: "common", Data: document.FormatAccepted(inv.Common())}}
		for _, r := range inv.Racks {
			slice := document.Document{Source: r.Name, Data: document.FormatAccepted(inv.Slice(r.Name))}
			parts = append(parts, slice)
			agent, problems := document.ParseAccepted(parts[0], slice)
			if agent == nil {
				t.Fatal(problems)
			}
			for _, m := range r.Machines {
				if got, want := agent.LinksOf(m.Name), inv.LinksOf(m.Name); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s is on\n%+v\nin its slice\n%+v", m.Name, want, got)
				}
			}
			for s := range 3 {
				vip := netip.AddrFrom4([4]byte{10, 0, byte(s), 150})
				want, on := inv.LinkSubnet(vip)
				if got, agentOn := agent.LinkSubnet(vip); agentOn != on || got != want || slices.Contains(r.Subnets, want) && !reflect.DeepEqual(agent.LinkAt(got), inv.LinkAt(want)) {
					t.Fatalf("%s is on %+v, in the slice of %s on %+v, %v", vip, inv.LinkAt(want), r.Name, agent.LinkAt(got), agentOn)
				}
			}
			if again, _ := document.ParseAccepted(document.Document{Source: "state.json", Data: document.FormatAccepted(agent)}); !document.Equal(again, agent) || !reflect.DeepEqual(again.Links(), agent.Links()) {
				t.Fatalf("what the agent writes down is read back as\n%s", document.FormatAccepted(again))
			}
		}
		whole, problems := document.ParseAccepted(parts...)
		if whole == nil || !document.Equal(whole, inv) || !reflect.DeepEqual(whole.Links(), inv.Links()) {
			t.Fatalf("%v\n%s\nis not\n%s", problems, document.FormatAccepted(whole), document.FormatAccepted(inv))
		}
	})
}

func TestOnlyWhatIsOnALinkIsStoredInFormat3(t *testing.T) {
	doc := inventorytest.File(t, "links.yaml")
	inv, problems := document.Load(doc)
	if inv == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if got := []int{document.StoredFormat(inv), document.StoredFormat(inv.Common()), document.StoredFormat(inv.Slice("attic"))}; !slices.Equal(got, []int{3, 3, 1}) {
		t.Errorf("formats %v", got)
	}
	if text := string(document.FormatAccepted(inv)); strings.Count(text, "advertise:\n        - ") != 2 {
		t.Errorf("it is stored as what versions without a number read:\n%s", text)
	}
	over, problems := document.Load(document.Document{Source: "links.yaml", Data: []byte(strings.ReplaceAll(strings.Replace(string(doc.Data), "192.168.1.219]}", "192.168.1.219], advertise: {via: bgp}}", 1), "via: link", "via: bgp"))})
	if over == nil || document.StoredFormat(over) != 1 || strings.Contains(string(document.FormatAccepted(over)), "links:") {
		t.Errorf("over BGP alone it is of format %d, %v", document.StoredFormat(over), problems)
	}
}
