package document

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// link tells where each setting of a link comes from: the rack, the spec or a default.
func (e *explainer) link(rack *rawRack, m *rawMachine, l inventory.Link) {
	self, _ := l.Machine(e.m.Name)
	add := func(field, value string, node *yaml.Node, note string) {
		e.add(fmt.Sprintf("links[%s].%s", l.Subnet, field), value, node, note)
	}
	at := slices.IndexFunc(m.Addresses.v, func(a scalar[netip.Addr]) bool { return a.v == self.Addr })
	var written *yaml.Node
	if at >= 0 {
		written = m.Addresses.v[at].node
	}
	add("address", self.Addr.String(), written, "")
	add("machines", fmt.Sprint(len(l.Machines)), nil, "those of every rack of the subnet with an address in it")
	bfd := cmp.Or(rack.OnLink.BFD, e.spec.OnLink.BFD)
	add("bfd", fmt.Sprintf("%s x %d", ShortDuration(l.Interval), l.Multiplier), bfd.node, "default")
	witness := e.spec.OnLink.Witness
	if len(rack.OnLink.Witness.v) > 0 {
		witness = rack.OnLink.Witness
	}
	switch {
	case len(l.Witness) == 0:
		add("witness", "the machine's default gateway, if it is in the subnet", nil, "default: the inventory has no router there")
	case slices.ContainsFunc(witness.v, func(w scalar[netip.Addr]) bool { return slices.Contains(l.Witness, w.v) }):
		add("witness", flowList(l.Witness), witness.node, "")
	default:
		add("witness", flowList(l.Witness), nil, "default: the routers in the subnet")
	}
	every := cmp.Or(rack.OnLink.AnnounceEvery, e.spec.OnLink.AnnounceEvery)
	add("announceEvery", ShortDuration(l.AnnounceEvery), every.node, "default")
}
