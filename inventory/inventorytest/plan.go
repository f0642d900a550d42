package inventorytest

import (
	"bytes"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Plan is an inventory as the property tests draw it: racks by name, each with
// machines by name and their state.
type Plan map[string]map[string]inventory.State

// DrawPlan draws up to four racks of up to six machines; every machine is in one rack.
func DrawPlan(t *rapid.T, label string) Plan {
	p := Plan{}
	states := []inventory.State{inventory.StateActive, inventory.StateActive, inventory.StatePlanned, inventory.StateMaintenance, inventory.StateOff}
	for i := range rapid.IntRange(0, 16).Draw(t, label+" machines") {
		name := fmt.Sprintf("w%d", i)
		if !rapid.Bool().Draw(t, label+" has "+name) {
			continue
		}
		rack := fmt.Sprintf("r%d", rapid.IntRange(0, 3).Draw(t, label+" rack of "+name))
		if p[rack] == nil {
			p[rack] = map[string]inventory.State{}
		}
		p[rack][name] = rapid.SampledFrom(states).Draw(t, label+" state of "+name)
	}
	return p
}

// Documents writes one document a rack.
func (p Plan) Documents() []document.Document {
	docs := []document.Document{{Source: "common", Data: []byte(`apiVersion: plinth.dev/v1alpha1
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
		docs = append(docs, document.Document{Source: rack, Data: b.Bytes()})
	}
	return docs
}

// Parse is the inventory before it is carved.
func (p Plan) Parse(t *rapid.T) *inventory.Inventory {
	inv, problems := document.Parse(p.Documents()...)
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}
