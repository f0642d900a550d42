package inventory

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawLinks draws an inventory of racks that share subnets, some of which have routers, and a pool on
// each subnet that says via: link.
func drawLinks(t *rapid.T) *Inventory {
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
			fmt.Fprintf(&b, "], state: \"%s\"}\n", rapid.SampledFrom([]State{StateActive, StateOff, StatePlanned, StateRetired}).Draw(t, "state"))
		}
	}
	b.WriteString("  pools:\n  - {name: free, addresses: [203.0.113.0/24]}\n")
	for s := range 3 {
		via := rapid.SampledFrom([]string{"bgp", "link"}).Draw(t, "via")
		fmt.Fprintf(&b, "  - {name: p%d, addresses: [10.0.%d.128-10.0.%d.200, 203.0.%d.0/25], advertise: {via: %s}}\n", s, s, s, 114+s, via)
	}
	text := b.String()
	// What is refused, as an address outside the subnets or a pool on no link, is not what is looked for here.
	inv, _ := parse([]Document{{"drawn", []byte(text)}}, &decoder{lenient: true})
	if inv == nil {
		t.Fatal(text)
	}
	inv.findLinks()
	return inv
}

// TestAMachinesLinksAreInItsSliceAsInTheWhole: agents see their rack alone, and have to come to the
// same owner.
func TestAMachinesLinksAreInItsSliceAsInTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := drawLinks(t)
		parts := []Document{{"common", inv.Common().FormatAccepted()}}
		for _, r := range inv.Racks {
			slice := Document{r.Name, inv.Slice(r.Name).FormatAccepted()}
			parts = append(parts, slice)
			agent, problems := ParseAccepted(parts[0], slice)
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
				want, on := inv.LinkOf(vip)
				if got, agentOn := agent.LinkOf(vip); agentOn != on || got.Subnet != want.Subnet || slices.Contains(r.Subnets, want.Subnet) && !reflect.DeepEqual(got, want) {
					t.Fatalf("%s is on %+v, in the slice of %s on %+v, %v", vip, want, r.Name, got, agentOn)
				}
			}
			if again, _ := ParseAccepted(Document{"state.json", agent.FormatAccepted()}); !again.Equal(agent) || !reflect.DeepEqual(again.Links(), agent.Links()) {
				t.Fatalf("what the agent writes down is read back as\n%s", again.FormatAccepted())
			}
		}
		whole, problems := ParseAccepted(parts...)
		if whole == nil || !whole.Equal(inv) || !reflect.DeepEqual(whole.Links(), inv.Links()) {
			t.Fatalf("%v\n%s\nis not\n%s", problems, whole.FormatAccepted(), inv.FormatAccepted())
		}
	})
}

func TestOnlyWhatIsOnALinkIsStoredInFormat3(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "links.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := Load(Document{"links.yaml", text})
	if inv == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if got := []int{inv.StoredFormat(), inv.Common().StoredFormat(), inv.Slice("attic").StoredFormat()}; !slices.Equal(got, []int{3, 3, 1}) {
		t.Errorf("formats %v", got)
	}
	if text := string(inv.FormatAccepted()); strings.Count(text, "advertise:\n        - ") != 2 {
		t.Errorf("it is stored as what versions without a number read:\n%s", text)
	}
	over, problems := Load(Document{"links.yaml", []byte(strings.ReplaceAll(strings.Replace(string(text), "192.168.1.219]}", "192.168.1.219], advertise: {via: bgp}}", 1), "via: link", "via: bgp"))})
	if over == nil || over.StoredFormat() != 1 || strings.Contains(string(over.FormatAccepted()), "links:") {
		t.Errorf("over BGP alone it is of format %d, %v", over.StoredFormat(), problems)
	}
}
