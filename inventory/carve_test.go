package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/inventorytest"
)

// blocksOf tells every pod CIDR: rack=… and machine=….
func blocksOf(inv *inventory.Inventory) string {
	var out []string
	for _, r := range inv.Racks {
		out = append(out, fmt.Sprintf("%s=%v", r.Name, r.PodCIDRs))
		for _, m := range r.Machines {
			out = append(out, fmt.Sprintf("%s=%v", m.Name, m.PodCIDRs))
		}
	}
	return strings.Join(out, " ")
}

const onePodNetwork = "podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n"

// rackWith writes a rack of machines; "w1=10.244.9.0/24" has a block by hand.
func rackWith(name, machines string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: %s\n\tmachines:\n", name)
	for i, m := range strings.Fields(machines) {
		m, block, byHand := strings.Cut(m, "=")
		fmt.Fprintf(&b, "\t\t- {name: %s, addresses: [10.1.%s.%d]", m, strings.Trim(name, "r"), i+1)
		if byHand {
			fmt.Fprintf(&b, ", podCIDRs: [%s]", block)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func TestBlocksAreCarvedInTheOrderInWhichTheyAreWritten(t *testing.T) {
	for _, c := range []struct{ what, spec, want string }{
		{"racks by name, machines as written", onePodNetwork + "racks:\n" + rackWith("r2", "c") + rackWith("r1", "b a"),
			"r1=[10.244.0.0/20] b=[10.244.0.0/24] a=[10.244.1.0/24] r2=[10.244.16.0/20] c=[10.244.16.0/24]"},
		{"a block by hand is left alone and passed over", onePodNetwork + "racks:\n" + rackWith("r1", "a b=10.244.0.0/24 c"),
			"r1=[10.244.0.0/20] a=[10.244.1.0/24] b=[10.244.0.0/24] c=[10.244.2.0/24]"},
		{"a small block by hand takes a whole one from the others", onePodNetwork + "racks:\n" + rackWith("r1", "a=10.244.0.128/26 b"),
			"r1=[10.244.0.0/20] a=[10.244.0.128/26] b=[10.244.1.0/24]"},
		{"a rack takes the block around one by hand", onePodNetwork + "racks:\n" + rackWith("r1", "a=10.244.17.0/24") + rackWith("r2", "b"),
			"r1=[10.244.16.0/20] a=[10.244.17.0/24] r2=[10.244.0.0/20] b=[10.244.0.0/24]"},
		{"both families", "podNetwork: {mode: direct, cidrs: [\"fd00:244::/48\", 10.244.0.0/16]}\nracks:\n" + rackWith("r1", "a"),
			"r1=[fd00:244::/56 10.244.0.0/20] a=[fd00:244::/64 10.244.0.0/24]"},
		{"a small network gets small blocks", "podNetwork: {mode: direct, cidrs: [192.168.99.0/24]}\nracks:\n" + rackWith("r1", "a b"),
			"r1=[192.168.99.0/26] a=[192.168.99.0/28] b=[192.168.99.16/28]"},
		{"no cidrs, nothing to carve", "podNetwork: {mode: direct}\nracks:\n" + rackWith("r1", "a"), "r1=[] a=[]"},
	} {
		inv, problems := inventory.Carve(inventorytest.Parsed(t, strings.ReplaceAll(c.spec, "\t", "  ")), nil)
		if inv == nil {
			t.Errorf("%s: %v", c.what, problems)
			continue
		}
		if got := blocksOf(inv); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.what, got, c.want)
		}
	}
}

func TestWhatIsInForceStays(t *testing.T) {
	carve := func(spec string, was *inventory.Inventory) (*inventory.Inventory, inventory.Problems) {
		return inventory.Carve(inventorytest.Parsed(t, strings.ReplaceAll(spec, "\t", "  ")), was)
	}
	first, _ := carve(onePodNetwork+"racks:\n"+rackWith("r5", "m n"), nil)
	for _, c := range []struct {
		what, spec, want string
		warnings         int
	}{
		{"when racks and machines come before", onePodNetwork + "racks:\n" + rackWith("r1", "a") + rackWith("r5", "k m n"),
			"r1=[10.244.16.0/20] a=[10.244.16.0/24] r5=[10.244.0.0/20] k=[10.244.2.0/24] m=[10.244.0.0/24] n=[10.244.1.0/24]", 0},
		{"when a machine goes, and its block is free again", onePodNetwork + "racks:\n" + rackWith("r5", "n o"),
			"r5=[10.244.0.0/20] n=[10.244.1.0/24] o=[10.244.0.0/24]", 0},
		{"when a machine moves to another rack, with a warning", onePodNetwork + "racks:\n" + rackWith("r1", "n") + rackWith("r5", "m"),
			"r1=[10.244.16.0/20] n=[10.244.1.0/24] r5=[10.244.0.0/20] m=[10.244.0.0/24]", 1},
		{"when prefix lengths change", "podNetwork: {mode: direct, cidrs: [10.244.0.0/16], nodePrefix: {ipv4: 25}}\nracks:\n" + rackWith("r5", "m n o"),
			"r5=[10.244.0.0/20] m=[10.244.0.0/24] n=[10.244.1.0/24] o=[10.244.2.0/25]", 0},
		{"when the network is another, with a warning each", "podNetwork: {mode: direct, cidrs: [10.99.0.0/16]}\nracks:\n" + rackWith("r5", "m n o"),
			"r5=[10.99.0.0/20] m=[10.244.0.0/24] n=[10.244.1.0/24] o=[10.99.0.0/24]", 2},
		{"unless a person says otherwise, with a warning", onePodNetwork + "racks:\n" + rackWith("r5", "m=10.244.7.0/24 n"),
			"r5=[10.244.0.0/20] m=[10.244.7.0/24] n=[10.244.1.0/24]", 1},
	} {
		inv, problems := carve(c.spec, first)
		if inv == nil {
			t.Errorf("%s: %v", c.what, problems)
			continue
		}
		if got := blocksOf(inv); got != c.want || len(problems) != c.warnings {
			t.Errorf("%s:\ngot  %s\nwant %s\n%v", c.what, got, c.want, problems)
		}
	}
	if inv, problems := carve(onePodNetwork+"racks:\n"+rackWith("r5", "m n x=10.244.1.0/24"), first); inv != nil {
		t.Error("a block by hand that another machine has in force is accepted", problems)
	}
}
