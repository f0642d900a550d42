package document

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// Origin is one effective value of a machine, and where it comes from.
type Origin struct {
	Field    string
	Value    string
	Position inventory.Position // zero: nobody wrote it
	Note     string             // what made it, where nobody wrote it
}

// Explain returns every effective value of a machine with its origin, the place that it comes
// from. It returns nothing where the documents have an error or no such machine.
func Explain(machine string, docs ...Document) ([]Origin, inventory.Problems) {
	parsed, raw, pages, problems := readRaw(docs, &decoder{})
	if parsed == nil {
		return nil, problems
	}
	inv, more := inventory.Carve(parsed, nil)
	problems = append(problems, more...).Sorted()
	if inv == nil {
		return nil, problems
	}
	m, ok := inv.Machine(machine)
	if !ok {
		return nil, problems
	}
	e := &explainer{inv: inv, spec: &raw.Spec, m: m}
	e.explain()
	return e.placed(pages), problems
}

// explainer collects the values of one machine, each with its node.
type explainer struct {
	inv   *inventory.Inventory
	spec  *rawSpec
	m     inventory.Machine
	out   []Origin
	nodes []*yaml.Node
}

// add notes a value; node is nil where nobody wrote it.
func (e *explainer) add(field, value string, node *yaml.Node, note string) {
	if value == "" && node == nil {
		return
	}
	if node != nil {
		note = ""
	}
	e.out = append(e.out, Origin{Field: field, Value: value, Note: note})
	e.nodes = append(e.nodes, node)
}

// placed fills in where the nodes stand.
func (e *explainer) placed(pages []page) []Origin {
	wanted := map[*yaml.Node]place{}
	for _, n := range e.nodes {
		wanted[n] = place{}
	}
	find(pages, typesOf(pages), wanted)
	for i, n := range e.nodes {
		e.out[i].Position = wanted[n].Position
	}
	return e.out
}

func (e *explainer) explain() {
	rack, raw := e.raw()
	machine := e.m
	e.add("name", machine.Name, raw.Name.node, "")
	e.add("providerID", machine.ProviderID(), raw.ID.node, "default: what it has in force, or the machine's name")
	e.add("state", string(machine.State), e.stateNode(rack, raw), "default")
	e.add("reason", machine.Reason, raw.Reason.node, "")
	e.add("rack", machine.Rack, rack.Name.node, "")
	e.add("addresses", flowList(machine.Addresses), raw.Addresses.node, "")
	if len(machine.ExternalAddresses) > 0 {
		e.add("externalAddresses", flowList(machine.ExternalAddresses), raw.ExternalAddresses.node, "")
	}
	e.add("hostname", cmp.Or(machine.Hostname, machine.Name), raw.Hostname.node, "default: the machine's name")
	e.add("systemUUID", machine.SystemUUID.String(), raw.Match.SystemUUID.node, "")
	for i, a := range raw.Aliases.v {
		e.add(fmt.Sprintf("aliases[%d]", i), a.v, a.node, "")
	}
	e.podCIDRs(rack, raw)
	e.labels(rack, raw)
	e.taints(raw)
	for _, s := range e.inv.Sessions(machine) {
		e.session(rack, s)
	}
	for _, l := range e.inv.LinksOf(machine.Name) {
		e.link(rack, raw, l)
	}
}

// raw finds what was written about the machine.
func (e *explainer) raw() (*rawRack, *rawMachine) {
	for r := range e.spec.Racks.each() {
		for m := range r.Machines.each() {
			if m.Name.v == e.m.Name {
				return r, m
			}
		}
	}
	return &rawRack{}, &rawMachine{}
}

// stateNode returns the node where the state that counts was written.
func (e *explainer) stateNode(rack *rawRack, m *rawMachine) *yaml.Node {
	if rack.State.given() && (rack.State.v == e.m.State && e.m.OwnState != e.m.State) {
		return rack.State.node
	}
	return m.State.node
}

func (e *explainer) podCIDRs(rack *rawRack, machine *rawMachine) {
	if len(e.m.PodCIDRs) == 0 {
		return
	}
	r, _ := e.inv.Rack(e.m.Rack)
	note := "carved from the rack's " + flowList(r.PodCIDRs)
	if len(rack.PodCIDRs.v) == 0 {
		note += ", itself carved from podNetwork.cidrs"
	}
	var node *yaml.Node
	if len(machine.PodCIDRs.v) > 0 {
		node = machine.PodCIDRs.node
	}
	e.add("podCIDRs", flowList(e.m.PodCIDRs), node, note+"; a cluster keeps what is in force there")
}

// labels adds the origin of each label of the Node.
func (e *explainer) labels(rack *rawRack, machine *rawMachine) {
	nodes := map[string]*yaml.Node{inventory.LabelRegion: e.spec.Region.node, inventory.LabelZone: rack.Zone.node, inventory.LabelType: machine.Type.node, inventory.LabelRack: rack.Name.node, inventory.LabelRow: rack.Row.node, inventory.LabelUnit: machine.Unit.node}
	notes := map[string]string{inventory.LabelRegion: "default: metadata.name", inventory.LabelZone: "default: the rack's name"}
	for label, twin := range inventory.BetaTwins {
		nodes[twin], notes[twin] = nodes[label], notes[label]
	}
	for _, written := range [][]entry[string]{e.spec.Labels.v, machine.Labels.v} {
		for _, l := range written {
			nodes[l.key.v] = l.value.node
		}
	}
	all := e.inv.Labels(e.m)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		e.add("labels["+key+"]", all[key], nodes[key], notes[key])
	}
}

func (e *explainer) taints(m *rawMachine) {
	for _, t := range m.Taints.v {
		e.add("taints["+t.Key.v+"]", t.Value.v+":"+t.Effect.v, t.Key.node, "")
	}
	if e.m.State == inventory.StateMaintenance {
		e.add("taints["+inventory.TaintMaintenance.Key+"]", ":"+inventory.TaintMaintenance.Effect, nil, "because of state: maintenance")
	}
}

// session adds the origin of each setting of a session: the router, the
// rack, the spec or a default.
func (e *explainer) session(rack *rawRack, session inventory.Session) {
	router := e.spec.router(session.Router)
	said := e.spec.session(rack, router)
	for _, option := range []struct {
		field, value string
		node         *yaml.Node
		note         string
	}{
		{"address", session.RouterAddr.String(), nodeOf(router.allAddresses(), session.RouterAddr), ""},
		{"port", fmt.Sprint(session.Port), router.Port.node, "default"},
		{"local", session.Local.String(), nil, e.sourceNote(session)},
		{"localASN", session.LocalASN.String(), cmp.Or(rack.ASN.node, e.spec.BGP.ASN.node), ""},
		{"routerASN", session.RouterASN.String(), router.ASN.node, ""},
		{"holdTime", ShortDuration(session.HoldTime), said.HoldTime.node, "default"},
		{"restartTime", ShortDuration(session.RestartTime), said.GracefulRestart.node, "default"},
		{"ttlSecurity", fmt.Sprint(session.TTLSecurity), said.TTLSecurity.node, "default"},
		{"multihop", fmt.Sprint(session.Multihop), said.Multihop.node, "default"},
		{"bfd", orOff(session.BFD.Name), said.BFD.node, "default"},
		{"password", secretName(session.Password), said.PasswordFrom.node, "default"},
		{"podCIDRs", fmt.Sprint(session.PodCIDRs), said.Advertise.PodCIDRs.node, "default: podNetwork.mode decides"},
		{"learn", string(session.Learn), said.Learn.node, "default"},
		{"families", session.Families.String(), nil, "what the machine has and the inventory needs"},
	} {
		e.add(fmt.Sprintf("sessions[%s %s].%s", session.Router, session.RouterAddr, option.field), option.value, option.node, option.note)
	}
}

// sourceNote returns the reason why a session has its source address.
func (e *explainer) sourceNote(s inventory.Session) string {
	if r, _ := e.inv.Rack(e.m.Rack); s.Multihop == 0 && r.HasBoth(s.Local, s.RouterAddr) {
		return "the machine's first address in the router's subnet"
	}
	return "the machine's first address of that family"
}

// secretName prints where a password lies.
func secretName(k inventory.SecretKey) string {
	if k == (inventory.SecretKey{}) {
		return "none"
	}
	return "secret " + k.Secret + ", key " + k.Key
}

// link adds the origin of each setting of a link: the rack, the spec or a default.
func (e *explainer) link(rack *rawRack, machine *rawMachine, link inventory.Link) {
	self, _ := link.Machine(e.m.Name)
	add := func(field, value string, node *yaml.Node, note string) {
		e.add(fmt.Sprintf("links[%s].%s", link.Subnet, field), value, node, note)
	}
	add("address", self.Addr.String(), nodeOf(machine.Addresses.v, self.Addr), "")
	add("machines", fmt.Sprint(len(link.Machines)), nil, "those of every rack of the subnet with an address in it")
	bfd := cmp.Or(rack.OnLink.BFD, e.spec.OnLink.BFD)
	add("bfd", fmt.Sprintf("%s x %d", ShortDuration(link.Interval), link.Multiplier), bfd.node, "default")
	witness := e.spec.OnLink.Witness
	if len(rack.OnLink.Witness.v) > 0 {
		witness = rack.OnLink.Witness
	}
	switch {
	case len(link.Witness) == 0:
		add("witness", "the machine's default gateway, if it is in the subnet", nil, "default: the inventory has no router there")
	case slices.ContainsFunc(witness.v, func(w scalar[netip.Addr]) bool { return slices.Contains(link.Witness, w.v) }):
		add("witness", flowList(link.Witness), witness.node, "")
	default:
		add("witness", flowList(link.Witness), nil, "default: the routers in the subnet")
	}
	every := cmp.Or(rack.OnLink.AnnounceEvery, e.spec.OnLink.AnnounceEvery)
	add("announceEvery", ShortDuration(link.AnnounceEvery), every.node, "default")
}
