package edit

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// fleet is a spec of one rack with n machines, the first so many of them retired.
func fleet(n, retired int) string {
	var b strings.Builder
	b.WriteString("bgp: {asn: 65010}\nracks:\n- name: r01\n  routers: [{name: tor, address: 10.1.0.1, asn: 65101}]\n  machines:\n")
	for i := range n {
		state := inventory.StateActive
		if i < retired {
			state = inventory.StateRetired
		}
		fmt.Fprintf(&b, "  - {name: w%02d, addresses: [10.1.1.%d], state: %s}\n", i, i+1, state)
	}
	return b.String()
}

// admit is [Admit], and then what limits removals.
func admit(next, inForce *inventory.Inventory, removals int) (*inventory.Inventory, inventory.Problems) {
	out, problems := Admit(next, inForce)
	if out == nil {
		return nil, problems
	}
	losses := LossesOf(out, inForce)
	losses.Drained = nil
	if refused, _ := losses.Refuse(inForce, Allowance{Removals: removals}); len(refused) > 0 {
		return nil, append(refused, problems...)
	}
	return out, problems
}

// withIDs gives every machine of a fleet an id.
func withIDs(fleet string) string {
	return regexp.MustCompile(`name: (w\d+)`).ReplaceAllString(fleet, "name: $1, id: SN-$1")
}

func TestTheBrakeStopsLargeRemovals(t *testing.T) {
	for _, c := range []struct {
		what          string
		before, after string
		allow         int
		ok            bool
	}{
		{"one of ten may go", fleet(10, 0), fleet(9, 0), 0, true},
		{"two of ten may not", fleet(10, 0), fleet(8, 0), 0, false},
		{"two of ten may if somebody says so", fleet(10, 0), fleet(8, 0), 2, true},
		{"two of forty may", fleet(40, 0), fleet(38, 0), 0, true},
		{"retiring counts as well", fleet(10, 0), fleet(10, 2), 0, false},
		{"what is retired already does not count", fleet(10, 2), fleet(10, 3), 0, true},
		{"an empty inventory is refused", fleet(10, 0), "region: dc1", 0, false},
		{"the limit is that in force, not that of the change", "safety: {maxRemoved: 1}\n" + fleet(10, 0), "safety: {maxRemoved: 100%}\n" + fleet(1, 0), 0, false},
		{"a limit of none lets nothing go", "safety: {maxRemoved: 0}\n" + fleet(10, 0), fleet(9, 0), 0, false},
		{"a part of a machine is a whole one", "safety: {maxRemoved: 5%}\n" + fleet(10, 0), fleet(9, 0), 0, true},
		{"another id is another machine", fleet(10, 0), strings.NewReplacer("{name: w01,", "{name: w01, id: SN-1,", "{name: w02,", "{name: w02, id: SN-2,").Replace(fleet(10, 0)), 0, false},
		{"one machine of ten may be replaced", fleet(10, 0), strings.Replace(fleet(10, 0), "{name: w01,", "{name: w01, id: SN-1,", 1), 0, true},
		{"what is planned may get its ids", strings.ReplaceAll(fleet(10, 0), "active", "planned"), withIDs(fleet(10, 0)), 0, true},
		{"the whole fleet may go by percentage", "safety: {maxRemoved: 100%}\n" + fleet(10, 0), "region: dc1", 0, true},
	} {
		inv, problems := admit(inventorytest.Parsed(t, c.after), inventorytest.Parsed(t, c.before), c.allow)
		if (inv != nil) != c.ok {
			t.Errorf("%s: %v", c.what, problems)
		}
		if inv == nil && problems[0].Code != inventory.TooManyRemovals {
			t.Errorf("%s: %v", c.what, problems)
		}
	}
}

func TestAMachineThatNobodyMentionsIsHeldWithItsRackAndRouters(t *testing.T) {
	before := inventorytest.Of(t, `
bgp: {asn: 65010}
routers: [{name: core, address: 10.0.0.1, asn: 65000}]
podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
racks:
	- {name: r01, routers: [{name: tor, address: 10.1.0.1, asn: 65101}], machines: [{name: w1, addresses: [10.1.1.1]}]}
	- {name: r02, machines: [{name: w2, addresses: [10.1.1.2]}, {name: w3, addresses: [10.1.1.3]}]}
`)
	next := inventorytest.Parsed(t, `
bgp: {asn: 65010}
podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
racks:
  - {name: r03, machines: [{name: w3, addresses: [10.1.1.3]}]}
`)
	inv, problems := admit(next, before, 10)
	if inv == nil {
		t.Fatal(problems)
	}
	for _, name := range []string{"w1", "w2"} {
		was, _ := before.Machine(name)
		m, ok := inv.Machine(name)
		if !ok || !m.Held || m.Rack != was.Rack || len(inv.Sessions(m)) != 1 || m.PodCIDRs[0] != was.PodCIDRs[0] {
			t.Errorf("%s is not held as it was: %+v, sessions %v", name, m, inv.Sessions(m))
		}
	}
	if m, _ := inv.Machine("w3"); m.Held || m.Rack != "r03" {
		t.Errorf("w3 has moved: %+v", m)
	}
	again, problems := admit(next, inv, 0)
	if again == nil || !document.Equal(again, inv) {
		t.Errorf("held machines count anew with every change: %v", problems)
	}
}

func TestOnlyARetiredMachineGoes(t *testing.T) {
	before := inventorytest.Parsed(t, fleet(4, 1))
	inv, problems := admit(inventorytest.Parsed(t, "bgp: {asn: 65010}"), before, 10)
	if inv == nil {
		t.Fatal(problems)
	}
	if _, ok := inv.Machine("w00"); ok || inv.Size() != 3 {
		t.Errorf("the retired machine is still there, or another is not: %d machines", inv.Size())
	}
}

func TestAMachineWithANewNameIsStillMentioned(t *testing.T) {
	before := inventorytest.Parsed(t, "racks: [{name: r01, machines: [{name: old, id: SN-1, addresses: [10.1.1.1]}]}]")
	inv, problems := admit(inventorytest.Parsed(t, "racks: [{name: r01, machines: [{name: new, id: SN-1, addresses: [10.1.1.1]}]}]"), before, 0)
	if inv == nil || inv.Size() != 1 {
		t.Fatal(problems)
	}
	if m, err := inv.MachineOf(inventory.NodeIdentity{ProviderID: "plinth://SN-1", Name: "old"}); err != nil || m.Name != "new" {
		t.Error(m, err)
	}
}

func TestAMachineInThePlaceOfAnotherKeepsItsPodCIDRsAndIsWarnedOf(t *testing.T) {
	const network = "podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n"
	before, _ := admit(inventorytest.Parsed(t, network+fleet(3, 0)), nil, 0)
	next := inventorytest.Parsed(t, network+strings.Replace(fleet(3, 0), "{name: w01,", "{name: w01, id: SN-1,", 1))
	inv, problems := admit(next, before, 0)
	if inv == nil || len(problems) != 1 || problems[0].Code != inventory.MachineReplaced || !strings.Contains(problems[0].Accepted, "kubectl delete node w01,") {
		t.Fatal(problems)
	}
	was, _ := before.Machine("w01")
	if is, _ := inv.Machine("w01"); is.PodCIDRs[0] != was.PodCIDRs[0] {
		t.Errorf("it had %v, and has %v", was.PodCIDRs, is.PodCIDRs)
	}
	if d := Diff(before, inv); len(d.Machines) != 1 || d.Machines[0].Kind != Replaced || !strings.Contains(d.String(), "w01 of rack r01 is replaced") {
		t.Errorf("the difference is told as: %s", d)
	}
	if _, problems := admit(next, inv, 0); len(problems) > 0 {
		t.Errorf("it is warned of again: %v", problems)
	}
}

func TestAHeldMachineYieldsWhatAnotherHasNow(t *testing.T) {
	before := inventorytest.Parsed(t, "racks: [{name: r01, machines: [{name: old, addresses: [10.1.1.1, 10.1.1.2], match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f585931}}]}]")
	next := inventorytest.Parsed(t, "racks: [{name: r01, machines: [{name: new, id: new, addresses: [10.1.1.1], match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f585931}}]}]")
	inv, problems := admit(next, before, 1)
	if inv == nil || len(problems) != 2 {
		t.Fatal(problems)
	}
	old, _ := inv.Machine("old")
	if len(old.Addresses) != 1 || !old.SystemUUID.IsZero() || !old.Held {
		t.Errorf("%+v", old)
	}
	if m, err := inv.MachineOf(inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID("4c4c4544-0032-3010-8053-b7c04f585931")}); err != nil || m.Name != "new" {
		t.Error(m, err)
	}
}

func TestAHeldMachineIsNotRetiredWithItsRack(t *testing.T) {
	before := inventorytest.Parsed(t, "racks: [{name: r01, state: maintenance, machines: [{name: w1, addresses: [10.1.1.1]}, {name: w2, addresses: [10.1.1.2]}]}]")
	inv, problems := admit(inventorytest.Parsed(t, "racks: [{name: r01, state: retired, machines: [{name: w1, addresses: [10.1.1.1]}]}]"), before, 2)
	if inv == nil {
		t.Fatal(problems)
	}
	again, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: document.FormatAccepted(inv)})
	if again == nil {
		t.Fatal(problems)
	}
	for _, i := range []*inventory.Inventory{inv, again} {
		w1, _ := i.Machine("w1")
		w2, _ := i.Machine("w2")
		if w1.State != inventory.StateRetired || w2.State != inventory.StateMaintenance {
			t.Errorf("w1 is %s, w2 is %s", w1.State, w2.State)
		}
	}
}

// TestAMachineIsKnownByItsIDWhateverItsNameIsNow: its pod CIDR goes with it, and only those
// whose ID is gone count as removed.
func TestAMachineIsKnownByItsIDWhateverItsNameIsNow(t *testing.T) {
	rack := func(machines string) *inventory.Inventory {
		t.Helper()
		return inventorytest.Parsed(t, "podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\nsafety: {maxRemoved: 0}\nracks: [{name: r0, machines: ["+machines+"]}]")
	}
	one, two, three := "id: one, addresses: [10.10.0.11]}", "id: two, addresses: [10.10.0.12]}", "id: three, addresses: [10.10.0.13]}"
	const first, second, third = "10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"
	for name, tt := range map[string]struct {
		next    string
		removed int
		blocks  map[string]string // by ID
	}{
		"its name is given to a new machine":          {"{name: c, " + one + ", {name: b, " + two + ", {name: a, " + three, 0, map[string]string{"one": first, "two": second, "three": third}},
		"two swap their names":                        {"{name: b, " + one + ", {name: a, " + two, 0, map[string]string{"one": first, "two": second}},
		"one has the name of one that goes":           {"{name: a, " + two, 1, map[string]string{"two": second}},
		"a new machine has the name of one that goes": {"{name: a, " + three + ", {name: b, " + two, 1, map[string]string{"three": first, "two": second}},
	} {
		t.Run(name, func(t *testing.T) {
			before, problems := admit(rack("{name: a, "+one+", {name: b, "+two), nil, 0)
			if before == nil {
				t.Fatal(problems)
			}
			if inv, problems := admit(rack(tt.next), before, tt.removed-1); tt.removed > 0 && inv != nil {
				t.Errorf("%d machines are removed, and nobody let them: %v", tt.removed, problems)
			}
			inv, problems := admit(rack(tt.next), before, tt.removed)
			if inv == nil {
				t.Fatal(problems)
			}
			got := map[string]string{}
			for _, m := range inv.Racks[0].Machines {
				got[m.ID] = m.PodCIDRs[0].String()
			}
			if !maps.Equal(got, tt.blocks) {
				t.Errorf("the pod CIDRs are %v, want %v", got, tt.blocks)
			}
			if warned := len(problems) == 1 && problems[0].Code == inventory.MachineReplaced; warned != (tt.removed > 0) {
				t.Errorf("it is said: %v", problems)
			}
			if again, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: document.FormatAccepted(inv)}); again == nil {
				t.Errorf("what was accepted cannot be read: %v", problems)
			}
		})
	}
}
