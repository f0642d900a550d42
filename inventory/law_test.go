package inventory

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plan is an inventory as the property tests draw it: racks by name, each with
// machines by name and their state.
type plan map[string]map[string]State

// drawPlan draws up to four racks of up to six machines; every machine is in one rack.
func drawPlan(t *rapid.T, label string) plan {
	p := plan{}
	states := []State{StateActive, StateActive, StatePlanned, StateMaintenance, StateOff}
	for i := range rapid.IntRange(0, 16).Draw(t, label+" machines") {
		name := fmt.Sprintf("w%d", i)
		if !rapid.Bool().Draw(t, label+" has "+name) {
			continue
		}
		rack := fmt.Sprintf("r%d", rapid.IntRange(0, 3).Draw(t, label+" rack of "+name))
		if p[rack] == nil {
			p[rack] = map[string]State{}
		}
		p[rack][name] = rapid.SampledFrom(states).Draw(t, label+" state of "+name)
	}
	return p
}

// documents writes one document a rack.
func (p plan) documents() []Document {
	docs := []Document{{"common", []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
  pools: [{name: public, addresses: [203.0.113.0/24]}]
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16], rackPrefix: {ipv4: 19}}
`)}}
	for rack, machines := range p {
		var b bytes.Buffer
		fmt.Fprintf(&b, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec: {racks: [{name: %s, machines: [", rack)
		names := make([]string, 0, len(machines))
		for name := range machines {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "{name: %s, addresses: [10.1.0.1%s], state: \"%s\"}, ", name, fmt.Sprintf("%02s", name[1:]), machines[name])
		}
		b.WriteString("]}]}\n")
		docs = append(docs, Document{rack, b.Bytes()})
	}
	return docs
}

func (p plan) parse(t *rapid.T) *Inventory {
	inv, problems := Parse(p.documents()...)
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

func TestTheOrderOfDocumentsNeverMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := drawPlan(t, "plan").documents()
		one, problems := Load(docs...)
		other, problems2 := Load(rapid.Permutation(docs).Draw(t, "order")...)
		if problems.String() != problems2.String() || !one.Equal(other) {
			t.Fatalf("%s\n%v\nis not\n%s\n%v", one.FormatAccepted(), problems, other.FormatAccepted(), problems2)
		}
	})
}

func TestAnInventoryDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, "plan")
		if d := Diff(p.parse(t), p.parse(t)); !d.Empty() {
			t.Fatal(d)
		}
	})
}

func TestTheDifferenceIsEmptyOnlyForEqualInventories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPlan(t, "a").parse(t), drawPlan(t, "b").parse(t)
		if Diff(a, b).Empty() && !a.Equal(b) {
			t.Fatalf("no difference between\n%s\nand\n%s", a.Format(), b.Format())
		}
	})
}

func TestCarvedBlocksNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := Carve(drawPlan(t, "plan").parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		noOverlap(t, inv)
	})
}

func noOverlap(t *rapid.T, inv *Inventory) {
	var racks, machines []netip.Prefix
	for _, r := range inv.Racks {
		racks = append(racks, r.PodCIDRs...)
		for _, m := range r.Machines {
			machines = append(machines, m.PodCIDRs...)
		}
	}
	for _, all := range [][]netip.Prefix{racks, machines} {
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.Overlaps(b) {
					t.Fatalf("%s and %s overlap in\n%s", a, b, inv.FormatAccepted())
				}
			}
		}
	}
}

func TestNoBlockEverMovesWhenTheInventoryIsEdited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inForce *Inventory
		for i := range 4 {
			next, problems := admit(drawPlan(t, fmt.Sprint("edit ", i)).parse(t), inForce, 100)
			if next == nil {
				t.Fatal(problems)
			}
			noOverlap(t, next)
			for _, r := range racksOf(inForce) {
				for _, m := range r.Machines {
					now, ok := next.Machine(m.Name)
					if !ok || !slices.Equal(now.PodCIDRs, m.PodCIDRs) {
						t.Fatalf("%s had %v and has %v (there: %v)", m.Name, m.PodCIDRs, now.PodCIDRs, ok)
					}
				}
			}
			inForce = next
		}
	})
}

func racksOf(inv *Inventory) []Rack {
	if inv == nil {
		return nil
	}
	return inv.Racks
}

func TestNoSequenceOfEditsWithoutRetiredLosesAMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inForce *Inventory
		known := map[string]bool{}
		for i := range 5 {
			allow := rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "allowed")
			if next, _ := admit(drawPlan(t, fmt.Sprint("edit ", i)).parse(t), inForce, allow); next != nil {
				inForce = next
			}
			for _, r := range racksOf(inForce) {
				for _, m := range r.Machines {
					known[m.Name] = true
				}
			}
			for name := range known {
				m, err := inForce.MachineOf(NodeIdentity{ProviderID: "plinth://" + name, Name: name})
				if err != nil || m.State == StateRetired {
					t.Fatalf("%s is lost: %v, %v", name, m.State, err)
				}
			}
		}
	})
}

func TestAcceptedSlicesTogetherAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := admit(drawPlan(t, "next").parse(t), drawPlan(t, "in force").parse(t), 100)
		if inv == nil {
			t.Fatal(problems)
		}
		parts := []Document{{"common", inv.Common().FormatAccepted()}}
		for _, r := range inv.Racks {
			parts = append(parts, Document{r.Name, inv.Slice(r.Name).FormatAccepted()})
		}
		again, problems := ParseAccepted(parts...)
		if again == nil || !again.Equal(inv) {
			t.Fatalf("%v\n%s", problems, inv.FormatAccepted())
		}
	})
}

func TestTheWayAMachineIsSeenByItsRackIsTheWayItIsSeenByAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := Carve(drawPlan(t, "plan").parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		for _, r := range inv.Racks {
			part, problems := ParseAccepted(Document{"common", inv.Common().FormatAccepted()}, Document{"slice", inv.Slice(r.Name).FormatAccepted()})
			if part == nil {
				t.Fatal(problems)
			}
			for _, m := range r.Machines {
				if a, b := inv.Sessions(m), part.Sessions(m); !slices.Equal(a, b) {
					t.Fatalf("%s has sessions\n%v\nin its slice\n%v", m.Name, a, b)
				}
				if a, b := fmt.Sprint(inv.Labels(m), inv.Taints(m)), fmt.Sprint(part.Labels(m), part.Taints(m)); a != b {
					t.Fatalf("%s has labels and taints\n%v\nin its slice\n%v", m.Name, a, b)
				}
			}
		}
	})
}
