package document_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/inventorytest"
)

// onLinkExample is the whole inventory of somebody whose router speaks no BGP.
const onLinkExample = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks: [{name: shelf, subnets: [192.168.1.0/24], machines: [{name: nuc1, addresses: [192.168.1.11]}, {name: nuc2, addresses: [192.168.1.12]}]}]
  pools: [{name: lan, addresses: [192.168.1.200-192.168.1.219]}]
`

// withoutProblem reads a spec that nothing is to be said of.
func withoutProblem(t *testing.T, spec string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(inventorytest.Document(spec))
	if inv == nil || len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, spec)
	}
	return inv
}

func TestAnInventoryOnALinkNeedsNeitherBGPNorRouters(t *testing.T) {
	more := `
racks:
- {name: shelf, subnets: [192.168.1.0/24, "fd00:1::/64"], machines: [{name: nuc1, addresses: [192.168.1.11, "fd00:1::b"]}, {name: nuc2, addresses: [192.168.1.12]}]}
- {name: attic, subnets: [192.168.1.0/24], machines: [{name: pi1, addresses: [192.168.1.13]}]}
- {name: cellar, subnets: [192.168.2.0/24], machines: [{name: pi2, addresses: [192.168.2.13]}]}
pools:
- {name: lan, addresses: [192.168.1.200-192.168.1.219, "fd00:1::c0de:0-fd00:1::c0de:ff"]}
- {name: cellar, addresses: [192.168.2.200-192.168.2.219]}
`
	for _, doc := range []document.Document{{Source: "home.yaml", Data: []byte(onLinkExample)}, inventorytest.Document(more)} {
		if inv, problems := document.Load(doc); inv == nil || len(problems) > 0 {
			t.Errorf("%v\n%s", problems, doc.Data)
		}
	}
}

// linkNames tells which pool addresses are on which link.
func linkNames(inv *inventory.Inventory, vips ...string) (out []string) {
	for _, vip := range vips {
		subnet, ok := inv.LinkSubnet(netip.MustParseAddr(vip))
		if !ok {
			out = append(out, "bgp")
			continue
		}
		out = append(out, subnet.String())
	}
	return out
}

func TestAnAddressIsAnnouncedOnItsSubnetWhereThePoolSaysSoOrNoRouterIsThere(t *testing.T) {
	const racks = `
bgp: {asn: 65010}
racks:
- {name: r1, subnets: [10.1.1.0/24], routers: [{name: tor, address: 10.1.1.1, asn: 65101}], machines: [{name: w1, addresses: [10.1.1.11]}]}
- {name: r2, subnets: [10.1.2.0/24], machines: [{name: w2, addresses: [10.1.2.11]}]}
- {name: r3, subnets: [10.1.3.0/24], machines: [{name: w3, addresses: [10.1.3.11]}]}
pools:
`
	for _, c := range []struct{ pool, want string }{
		{"addresses: [10.1.2.128/25], exclude: [10.1.2.255]", "bgp 10.1.2.0/24 10.1.2.0/24 bgp bgp"},
		{"addresses: [10.1.2.128/25], advertise: {via: bgp}", "bgp bgp bgp bgp bgp"},
		{"addresses: [10.1.2.128/25], exclude: [10.1.2.255], advertise: {via: link}", "bgp 10.1.2.0/24 10.1.2.0/24 bgp bgp"},
		{"addresses: [10.1.1.128-10.1.1.254], advertise: {via: link}", "10.1.1.0/24 bgp bgp bgp bgp"},
		{"addresses: [10.1.1.128-10.1.1.254], advertise: {via: bgp}", "bgp bgp bgp bgp bgp"},
		{"addresses: [10.1.1.128-10.1.1.254, 10.1.3.200-10.1.3.210, 203.0.113.0/24], advertise: [{via: link, serviceSelector: {matchLabels: {a: b}}}, {}]", "10.1.1.0/24 bgp bgp 10.1.3.0/24 bgp"},
		{"addresses: [203.0.113.0/24]", "bgp bgp bgp bgp bgp"},
	} {
		inv, problems := document.Load(inventorytest.Document(racks + "- {name: a, " + c.pool + "}\n"))
		if inv == nil {
			t.Errorf("%s: %v", c.pool, problems)
			continue
		}
		if got := strings.Join(linkNames(inv, "10.1.1.200", "10.1.2.200", "10.1.2.255", "10.1.3.200", "203.0.113.7"), " "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.pool, got, c.want)
		}
		again, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: document.FormatAccepted(inv)})
		if again == nil || !document.Equal(again, inv) || !reflect.DeepEqual(again.Links(), inv.Links()) {
			t.Errorf("%s is read back as\n%v, %v", c.pool, again.Links(), problems)
		}
	}
}

func TestAPoolOnASubnetWithARouterHasToSayHow(t *testing.T) {
	const spec = `
bgp: {asn: 65010}
racks:
- {name: r1, subnets: [10.1.1.0/24], routers: [{name: tor, address: 10.1.1.1, asn: 65101}], machines: [{name: w1, addresses: [10.1.1.11]}]}
pools:
- {name: a, addresses: [%s], %s}
`
	for _, c := range []struct {
		addresses, rest string
		ok              bool
	}{
		{"10.1.1.128/26", "", false},
		{"10.1.0.0/16", "", false},
		{"10.1.0.0/16", "exclude: [10.1.1.0/24]", true},
		{"10.1.1.128/26", "advertise: {via: bgp}", true},
		{"10.1.1.128/26", "advertise: {via: link}", true},
		{"10.1.2.128/26", "", true},
	} {
		inv, problems := document.Load(inventorytest.Document(fmt.Sprintf(spec, c.addresses, c.rest)))
		if c.ok && (inv == nil || len(problems) > 0) || !c.ok && (inv != nil || !strings.Contains(problems.String(), "error["+string(inventory.PoolOnSubnet)+"]")) {
			t.Errorf("%s, %s: %v", c.addresses, c.rest, problems)
		}
	}
}

func TestWhatAnOlderVersionStoredIsAnnouncedOverBGP(t *testing.T) {
	for _, routers := range []string{"[]", "[tor]"} {
		inv, problems := document.ParseAccepted(inventorytest.Document(`
bgp: {asn: 65010}
routers: [{name: tor, address: 10.1.1.1, asn: 65101}]
racks:
- {name: r1, subnets: [10.1.1.0/24], peers: ` + routers + `, machines: [{name: w1, addresses: [10.1.1.11]}]}
pools:
- {name: a, addresses: [10.1.1.128/26]}
`))
		if inv == nil {
			t.Fatal(problems)
		}
		if _, on := inv.LinkSubnet(netip.MustParseAddr("10.1.1.130")); on || len(inv.Links()) > 0 || document.StoredFormat(inv) != 1 {
			t.Errorf("with peers %s it is on %v, format %d", routers, inv.Links(), document.StoredFormat(inv))
		}
	}
}

func TestALinkHasTheMachinesOfEveryRackOfItsSubnet(t *testing.T) {
	inv := withoutProblem(t, `
bfdProfiles: [{name: calm, interval: 300ms, multiplier: 5}]
onLink: {bfd: calm, announceEvery: 30s, witness: [192.168.1.254]}
racks:
- name: b
  subnets: [192.168.1.0/24, 192.168.9.0/24]
  machines:
  - {name: z, addresses: [192.168.9.3, 192.168.1.3]}
  - {name: y, addresses: [192.168.1.4, 192.168.1.2], state: maintenance}
  - {name: old, addresses: [192.168.1.4], state: retired}
- name: a
  zone: east
  subnets: [192.168.1.0/24]
  machines: [{name: x, addresses: [192.168.1.1]}]
- name: c
  subnets: [192.168.7.0/24]
  machines: [{name: w, addresses: [192.168.7.1]}]
pools:
- {name: lan, addresses: [192.168.1.200-192.168.1.219]}
- {name: storage, addresses: [192.168.9.200-192.168.9.219]}
`)
	lan := inventory.Link{
		Subnet: netip.MustParsePrefix("192.168.1.0/24"), Interval: 300 * time.Millisecond, Multiplier: 5, AnnounceEvery: 30 * time.Second,
		Witness: []netip.Addr{netip.MustParseAddr("192.168.1.254")},
		Machines: []inventory.LinkMachine{
			{Name: "x", Rack: "a", Zone: "east", Addr: netip.MustParseAddr("192.168.1.1"), State: inventory.StateActive},
			{Name: "z", Rack: "b", Zone: "b", Addr: netip.MustParseAddr("192.168.1.3"), State: inventory.StateActive},
			{Name: "y", Rack: "b", Zone: "b", Addr: netip.MustParseAddr("192.168.1.4"), State: inventory.StateMaintenance},
		},
	}
	storage := inventory.Link{
		Subnet: netip.MustParsePrefix("192.168.9.0/24"), Interval: 300 * time.Millisecond, Multiplier: 5, AnnounceEvery: 30 * time.Second,
		Machines: []inventory.LinkMachine{{Name: "z", Rack: "b", Zone: "b", Addr: netip.MustParseAddr("192.168.9.3"), State: inventory.StateActive}},
	}
	if got := inv.Links(); !reflect.DeepEqual(got, []inventory.Link{lan, storage}) {
		t.Errorf("links\n%+v\nwant\n%+v", got, []inventory.Link{lan, storage})
	}
	for machine, want := range map[string][]inventory.Link{"x": {lan}, "y": {lan}, "z": {lan, storage}, "w": nil, "old": nil, "nobody": nil} {
		if got := inv.LinksOf(machine); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is on %+v, not on %+v", machine, got, want)
		}
	}
}

func TestTheWitnessIsWhatIsGivenElseTheRoutersInTheSubnet(t *testing.T) {
	const spec = `
bgp: {asn: 65010}
routers:
- {name: gateway, address: 192.168.1.1, asn: 65101}
- {name: far, address: 192.168.3.1, asn: 65101}
%s
racks:
- {name: a, subnets: [192.168.1.0/24, 192.168.2.0/24], multihop: 2, machines: [{name: x, addresses: [192.168.1.11, 192.168.2.11]}] %s}
pools:
- {name: lan, addresses: [192.168.1.200-192.168.1.219, 192.168.2.200-192.168.2.219], advertise: {via: link}}
`
	for _, c := range []struct{ of, rack, want string }{
		{"", "", "[192.168.1.1] []"},
		{"onLink: {witness: [192.168.2.7, 192.168.2.5]}", "", "[192.168.1.1] [192.168.2.5 192.168.2.7]"},
		{"onLink: {witness: [192.168.2.7]}", ", onLink: {witness: [192.168.1.9]}", "[192.168.1.9] []"},
		{"onLink: {witness: [192.168.2.7]}", ", onLink: {announceEvery: 5s}", "[192.168.1.1] [192.168.2.7]"},
	} {
		inv := withoutProblem(t, fmt.Sprintf(spec, c.of, c.rack))
		var got []string
		for _, l := range inv.Links() {
			got = append(got, fmt.Sprint(l.Witness))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s%s: %v, want %s", c.of, c.rack, got, c.want)
		}
	}
}

func TestWhatIsSaidOfLinksIsPrintedAndCompared(t *testing.T) {
	const spec = `
bfdProfiles: [{name: fast, interval: 50ms}]
onLink: {bfd: fast, witness: [192.168.1.2], announceEvery: 5m}
racks:
- {name: a, subnets: [192.168.1.0/24], onLink: {witness: [192.168.1.3]}, machines: [{name: x, addresses: [192.168.1.11]}]}
pools:
- {name: lan, addresses: [192.168.1.200-192.168.1.219], advertise: {via: link}}
`
	inv := withoutProblem(t, spec)
	printed := document.Format(inv)
	if strings.Contains(string(printed), "links:") {
		t.Errorf("what Plinth alone writes is printed for people:\n%s", printed)
	}
	again, problems := document.Load(document.Document{Source: "printed", Data: printed})
	if again == nil || !document.Equal(again, inv) {
		t.Errorf("%v\n%s\nis read back as\n%s", problems, printed, document.FormatAccepted(again))
	}
	other := withoutProblem(t, strings.NewReplacer("5m", "1m", "192.168.1.3", "192.168.1.4").Replace(spec))
	want := "spec.onLink.announceEvery: 300s -> 60s\nspec.racks[a].onLink.witness: [192.168.1.3] -> [192.168.1.4]"
	if got := edit.Diff(inv, other).String(); got != want {
		t.Errorf("the difference is\n%s\nnot\n%s", got, want)
	}
	if slices.Equal(inv.Racks[0].OnLink.Witness, other.Racks[0].OnLink.Witness) {
		t.Error("the witness of the rack is not read")
	}
}

func TestExplainTellsWhereTheSettingsOfALinkComeFrom(t *testing.T) {
	const spec = `
onLink: {announceEvery: 30s}
racks:
- {name: a, subnets: [192.168.1.0/24, 192.168.2.0/24], onLink: {witness: [192.168.1.3]}, machines: [{name: x, addresses: [192.168.2.11, 192.168.1.11]}]}
pools:
- {name: lan, addresses: [192.168.1.200-192.168.1.219, 192.168.2.200-192.168.2.219]}
`
	all, problems := document.Explain("x", inventorytest.Document(spec))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for _, o := range all {
		if strings.HasPrefix(o.Field, "links") {
			got = append(got, fmt.Sprintf("%s %s (%d %s)", o.Field, o.Value, o.Position.Line, o.Note))
		}
	}
	want := []string{
		"links[192.168.1.0/24].address 192.168.1.11 (7 )", "links[192.168.1.0/24].machines 1 (0 those of every rack of the subnet with an address in it)",
		"links[192.168.1.0/24].bfd 100ms x 3 (0 default)", "links[192.168.1.0/24].witness [192.168.1.3] (7 )", "links[192.168.1.0/24].announceEvery 30s (5 )",
		"links[192.168.2.0/24].address 192.168.2.11 (7 )", "links[192.168.2.0/24].machines 1 (0 those of every rack of the subnet with an address in it)",
		"links[192.168.2.0/24].bfd 100ms x 3 (0 default)", "links[192.168.2.0/24].witness the machine's default gateway, if it is in the subnet (0 default: the inventory has no router there)",
		"links[192.168.2.0/24].announceEvery 30s (5 )",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
