package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// nodesAt are Nodes with these addresses, each in a zone: zone/address.
func nodesAt(places ...string) document.Document {
	var b strings.Builder
	for i, place := range places {
		zone, address, _ := strings.Cut(place, "/")
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: w%d, labels: {topology.kubernetes.io/zone: %q}}\nstatus: {addresses: [{type: InternalIP, address: %q}]}\n", i+1, zone, address)
	}
	return document.Document{Source: "cluster", Data: []byte(b.String())}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestTheFirstInventory(t *testing.T) {
	pool, err := document.ParseRange("203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		nodes   []string
		answers Answers
		want    []string // in the inventory
		notes   []string // a part of each
	}{
		"at home": {[]string{"/192.168.1.11", "/192.168.1.12"}, Answers{},
			[]string{"subnets: [192.168.1.0/24]", `addresses: ["192.168.1.224-192.168.1.239"]`}, []string{"I0006]: spec.pools[default].addresses", "I0006]: spec.racks[default].subnets"}},
		"what is used is not proposed": {[]string{"/192.168.1.11"}, Answers{Used: prefixes("192.168.1.230/32", "192.168.1.208/29")},
			[]string{`addresses: ["192.168.1.192-192.168.1.207"]`}, []string{"addresses", "subnets"}},
		"machines where the pool would be": {[]string{"/192.168.1.225", "/192.168.1.220"}, Answers{},
			[]string{`addresses: ["192.168.1.192-192.168.1.207"]`}, []string{"addresses", "subnets"}},
		"all of it is used": {[]string{"/192.168.1.11"}, Answers{Used: prefixes("192.168.0.0/16")}, nil, []string{"I0007]: spec.pools: no 16 addresses", "subnets"}},
		"two zones, the first one full": {[]string{"a/10.1.0.11", "b/10.2.0.12"}, Answers{Used: prefixes("10.1.0.0/24")},
			[]string{"subnets: [10.1.0.0/24]", "subnets: [10.2.0.0/24]", `addresses: ["10.2.0.224-10.2.0.239"]`}, []string{"addresses", "racks[a]", "racks[b]"}},
		"a router": {[]string{"/192.168.1.11"}, Answers{Router: netip.MustParseAddr("192.168.1.1"), RouterASN: 64513, ASN: 64514, Pool: []inventory.Range{pool}},
			[]string{"asn: 64514", "- name: gateway\n      address: 192.168.1.1\n      asn: 64513", "addresses: [203.0.113.0/24]"}, nil},
		"a router, and no pool": {[]string{"/192.168.1.11"}, Answers{Router: netip.MustParseAddr("192.168.1.1"), RouterASN: 64513, ASN: 64514}, nil, []string{"I0007]: spec.pools: say"}},
		"IPv6 alone":            {[]string{"/2001:db8::b"}, Answers{}, []string{`subnets: ["2001:db8::/64"]`}, []string{"I0007]: spec.pools: no 16 addresses in a row of IPv4", "subnets"}},
		"a small network": {[]string{"/198.51.100.67", "/198.51.100.68"}, Answers{Network: netip.MustParsePrefix("198.51.100.64/26")},
			[]string{"subnets: [198.51.100.64/26]", `addresses: ["198.51.100.96-198.51.100.111"]`}, []string{"addresses"}},
		"all of the network": {[]string{"/192.168.1.11"}, Answers{Pool: []inventory.Range{inventory.RangeOf(netip.MustParsePrefix("192.168.1.0/24"))}},
			[]string{"exclude: [192.168.1.0, 192.168.1.255, 192.168.1.11]"}, []string{"192.168.1.11 is the address of machine w1, and excluded", "subnets"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, notes := Propose(Options{Sources: []string{"nodes"}}, c.answers, nodesAt(c.nodes...))
			for _, part := range c.want {
				if !strings.Contains(string(text), part) {
					t.Errorf("%q is not in\n%s", part, text)
				}
			}
			if len(notes) != len(c.notes) || text == nil {
				t.Fatalf("notes are %v of\n%s", notes, text)
			}
			for i, part := range c.notes {
				if !strings.Contains(notes[i].String(), part) {
					t.Errorf("note %v, want %q", notes[i], part)
				}
			}
		})
	}
}

// TestNothingThatIsUsedIsProposed: whatever a cluster has.
func TestNothingThatIsUsedIsProposed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var used []netip.Prefix
		for _, last := range rapid.SliceOfN(rapid.IntRange(0, 255), 0, 20).Draw(t, "used") {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 1, byte(last)}), rapid.SampledFrom([]int{32, 32, 31, 29, 28}).Draw(t, "bits"))
			used = append(used, p.Masked())
		}
		machine := netip.AddrFrom4([4]byte{192, 168, 1, byte(rapid.IntRange(1, 254).Draw(t, "machine"))})
		block, ok := Free(Options{Sources: []string{"nodes"}}, Answers{Used: used}, nodesAt("/"+machine.String()))
		taken := func(r inventory.Range) bool {
			for _, p := range used {
				if inventory.RangeOf(p).Overlaps(r) {
					return true
				}
			}
			return r.Contains(machine)
		}
		if ok && (taken(block) || block.Size() != freeSize || block.First.As4()[3] < freeSize || block.Last.As4()[3] == 255) {
			t.Fatalf("%v is proposed beside %v", block, used)
		}
		for first := freeSize; !ok && first <= 256-2*freeSize; first += freeSize {
			r := inventory.RangeOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 1, byte(first)}), 28))
			if !taken(r) {
				t.Fatalf("%v is free, and nothing is proposed", r)
			}
		}
	})
}

func TestWhatIsThereIsRead(t *testing.T) {
	pool := document.Document{Source: "x", Data: []byte("apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a}\nspec: {addresses: [192.0.2.0/28]}\n")}
	if got := Present(pool, nodesAt("/10.0.0.1")); fmt.Sprint(got) != "[nodes metallb]" {
		t.Error(got)
	}
	if got := Present(nodesAt("/10.0.0.1")); fmt.Sprint(got) != "[nodes]" {
		t.Error(got)
	}
}

// TestNodesThatReportNoAddressHaveThoseThatAreSaid: one that nobody gives any is planned. What a Node reports itself counts before what is said.
func TestNodesThatReportNoAddressHaveThoseThatAreSaid(t *testing.T) {
	bare := func(names ...string) document.Document {
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s}\nstatus: {addresses: [{type: Hostname, address: %[1]s}]}\n", name)
		}
		return document.Document{Source: "bare", Data: []byte(b.String())}
	}
	docs := []document.Document{nodesAt("/192.168.1.11"), bare("w2", "w3")}
	options := Options{Sources: []string{"nodes"}}
	if got := WithoutAddress(options, docs...); fmt.Sprint(got) != "[w2 w3]" {
		t.Errorf("without an address are %v", got)
	}
	options.Addresses = map[string][]netip.Addr{"w1": {netip.MustParseAddr("10.0.0.1")}, "w2": {netip.MustParseAddr("192.168.1.12")}}
	if got := WithoutAddress(options, docs...); fmt.Sprint(got) != "[w3]" {
		t.Errorf("without an address are %v then", got)
	}
	text, notes := Propose(options, Answers{}, docs...)
	inv, problems := document.Parse(document.Document{Source: "proposed", Data: text})
	if problems.Err() != nil {
		t.Fatal(problems.Err(), notes)
	}
	for name, want := range map[string]string{"w1": "[192.168.1.11] active", "w2": "[192.168.1.12] active", "w3": "[] planned"} {
		m, _ := inv.Machine(name)
		if got := fmt.Sprintf("%v %s", m.Addresses, m.State); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
}

// TestNodesOfSeveralNetworksStandInARackEach, unless a label says where they stand, or nobody asks for it.
func TestNodesOfSeveralNetworksStandInARackEach(t *testing.T) {
	for name, c := range map[string]struct {
		nodes   []string
		options Options
		racks   string
		guessed bool
	}{
		"two networks":                  {[]string{"/10.1.1.11", "/10.1.2.11", "/10.1.1.12"}, Options{RackBySubnet: true}, "subnet-10-1-1-0: w1 w3; subnet-10-1-2-0: w2", true},
		"IPv6":                          {[]string{"/2001:db8:1::b", "/2001:db8:2::b"}, Options{RackBySubnet: true}, "subnet-2001-db8-1: w1; subnet-2001-db8-2: w2", true},
		"one network":                   {[]string{"/10.1.1.11", "/10.1.1.12"}, Options{RackBySubnet: true}, "default: w1 w2", false},
		"nobody asks for it":            {[]string{"/10.1.1.11", "/10.1.2.11"}, Options{}, "default: w1 w2", false},
		"zones":                         {[]string{"a/10.1.1.11", "a/10.1.2.11"}, Options{RackBySubnet: true}, "a: w1 w2", false},
		"one Node has a zone":           {[]string{"a/10.1.1.11", "/10.1.2.11"}, Options{RackBySubnet: true}, "a: w1; default: w2", false},
		"another label, which all lack": {[]string{"a/10.1.1.11", "b/10.1.2.11"}, Options{RackBySubnet: true, RackBy: "rack"}, "subnet-10-1-1-0: w1; subnet-10-1-2-0: w2", true},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Sources = []string{"nodes"}
			text, notes := Propose(c.options, Answers{}, nodesAt(c.nodes...))
			inv, problems := document.Parse(document.Document{Source: "proposed", Data: text})
			if problems.Err() != nil {
				t.Fatal(problems.Err(), notes)
			}
			var racks []string
			for _, r := range inv.Racks {
				rack := r.Name + ":"
				for _, m := range r.Machines {
					rack += " " + m.Name
				}
				racks = append(racks, rack)
			}
			if got := strings.Join(racks, "; "); got != c.racks {
				t.Errorf("the racks are %s, want %s", got, c.racks)
			}
			if got := slices.ContainsFunc(notes, func(n Note) bool { return n.Code == Guessed && n.Path == "spec.racks" }); got != c.guessed {
				t.Errorf("it is told: %t, want %t: %v", got, c.guessed, notes)
			}
		})
	}
}
