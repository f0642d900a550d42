package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

var nodeKinds = kindsOf("", "v1", "Node")

// node is a Node that was read, with the rack that its machine stands in.
type node struct {
	name   string
	labels map[string]string
	rack   string
}

// readNodes makes a machine of each Node. What Kubernetes, kubelets and people keep on Nodes themselves stays there, and is not written.
func readNodes(d *draft) {
	var all []*corev1.Node
	var objects []*object
	for _, o := range d.of("", "Node") {
		if n, ok := decode[corev1.Node](d, o); ok {
			all, objects = append(all, n), append(objects, o)
		}
	}
	r := nodeReader{draft: d, uuids: uuidsOf(all), ids: map[string]string{}, rackBy: rackLabelOf(d, all)}
	r.bySubnet = r.racksAreSubnets(all)
	r.region = sameOf(all, corev1.LabelTopologyRegion)
	d.inv.Region = r.region
	for i, n := range all {
		r.machine(objects[i], n)
	}
}

// nodeSelectors are those of all objects that were read, but for those of programs' pods, which follow roles.
func (d *draft) nodeSelectors() (all []inventory.Selector) {
	for _, o := range d.objects {
		if o.group() == "" || o.group() == "apps" {
			continue
		}
		labels := map[string]string{}
		var asked []inventory.Requirement
		for _, l := range o.leaves() {
			if !strings.HasPrefix(l.path, "spec.nodeSelector") {
				continue
			}
			if _, key, ok := strings.Cut(l.path, ".matchLabels"); ok {
				labels[strings.Trim(key, ".[]")] = l.node.Value
			} else if strings.HasSuffix(l.path, "].key") {
				asked = append(asked, inventory.Requirement{Key: l.node.Value})
			}
		}
		all = append(all, inventory.Selector{MatchLabels: labels, MatchExpressions: asked})
	}
	return all
}

// rackLabelOf is the label that racks are made by: the one that was said, or that all selectors ask for, where each Node has it and no two zones
// the same value of it, for the zone of a Node is its rack's; else that of the zone.
func rackLabelOf(d *draft, all []*corev1.Node) string {
	if d.options.RackBy != "" {
		return d.options.RackBy
	}
	label, zones := rackLabel(d.nodeSelectors()), map[string]string{}
	for _, n := range all {
		value, zone := n.Labels[label], n.Labels[corev1.LabelTopologyZone]
		if first, known := zones[value]; value == "" || known && first != zone {
			return corev1.LabelTopologyZone
		}
		zones[value] = zone
	}
	return label
}

// sameOf is the value of a label that all Nodes have, or none.
func sameOf(all []*corev1.Node, label string) string {
	if len(all) == 0 {
		return ""
	}
	value := all[0].Labels[label]
	if slices.ContainsFunc(all, func(n *corev1.Node) bool { return n.Labels[label] != value }) {
		return ""
	}
	return value
}

// uuidsOf counts how many Nodes report each system UUID.
func uuidsOf(all []*corev1.Node) map[inventory.UUID]int {
	count := map[inventory.UUID]int{}
	for _, n := range all {
		count[inventory.ReportedUUID(n.Status.NodeInfo.SystemUUID)]++
	}
	return count
}

type nodeReader struct {
	*draft
	rackBy string // label whose value is the rack
	// bySubnet has each network that Nodes lie in be a rack: no Node has that label.
	bySubnet bool
	region   string // of all Nodes
	uuids    map[inventory.UUID]int
	ids      map[string]string // Node by the id of its machine
}

func (r *nodeReader) machine(o *object, n *corev1.Node) {
	o.mark(meaningless, "spec", "status")
	o.mark(carried, "spec.providerID", "status.addresses")
	m := inventory.Machine{Name: n.Name, ID: n.Name, OwnState: inventory.StateActive, State: inventory.StateActive, Type: n.Labels[corev1.LabelInstanceTypeStable]}
	if !inventoryName.MatchString(n.Name) {
		r.fail(o, "metadata.name", NotValid, "no machine can have this name")
		return
	}
	r.providerID(o, n, &m)
	r.addresses(o, n, &m)
	r.providedAddresses(o, n, &m)
	if len(m.Addresses) == 0 {
		m.Addresses = slices.Clone(r.options.Addresses[n.Name])
	}
	if u, ok := inventory.ParseUUID(n.Status.NodeInfo.SystemUUID); ok && r.uuids[inventory.ReportedUUID(u.String())] == 1 {
		m.SystemUUID = inventory.ReportedUUID(u.String())
		o.mark(carried, "status.nodeInfo.systemUUID")
	}
	if r.options.PodNetwork {
		r.podCIDRs(o, n, &m)
	}
	r.labels(o, n, &m)
	r.taints(o, n, &m)
	rack := r.rackOf(o, n, m.Addresses)
	m.Rack = rack
	if len(m.Addresses) == 0 {
		m.OwnState, m.State = inventory.StatePlanned, inventory.StatePlanned
		r.note(o, "status.addresses", Guessed, "the Node has no address yet: the machine is planned. Give it its addresses, and take the state away")
	}
	to := r.rack(rack)
	to.Machines = append(to.Machines, m)
	r.comment(fmt.Sprintf("spec.racks[%s].machines[%s]", rack, m.Name), o)
	r.nodes = append(r.nodes, node{n.Name, n.Labels, rack})
}

// providerID keeps what the Node is known by: an ID of Plinth's is the machine's id, another one an alias.
func (r *nodeReader) providerID(o *object, n *corev1.Node, m *inventory.Machine) {
	switch id, ours := strings.CutPrefix(n.Spec.ProviderID, inventory.ProviderScheme+"://"); {
	case n.Spec.ProviderID == "":
	case ours:
		m.ID = id
	default:
		m.Aliases = []string{n.Spec.ProviderID}
	}
	if other := r.ids[m.ID]; other != "" {
		r.fail(o, "spec.providerID", NotValid, fmt.Sprintf("node %s has the same: one of them is another machine", other))
	}
	r.ids[m.ID] = n.Name
}

func (r *nodeReader) addresses(o *object, n *corev1.Node, m *inventory.Machine) {
	hostname := false
	for i, a := range n.Status.Addresses {
		path := fmt.Sprintf("status.addresses[%d]", i)
		addr, err := netip.ParseAddr(a.Address)
		why := r.unusable(addr, *m)
		switch {
		case a.Type == corev1.NodeHostName && hostname:
			o.mark(noted, path)
			r.note(o, path, Differs, fmt.Sprintf("Hostname %q is a second one, and a machine has one", a.Address))
		case a.Type == corev1.NodeHostName:
			hostname = true
			m.Hostname = a.Address
			if a.Address == n.Name {
				m.Hostname = ""
				o.mark(meaningless, path)
			}
		case why != "" && err == nil:
			o.mark(noted, path)
			r.note(o, path, NotValid, fmt.Sprintf("%s %v %s: it is left out", a.Type, addr, why))
		case a.Type == corev1.NodeInternalIP && err == nil:
			m.Addresses = append(m.Addresses, addr)
		case a.Type == corev1.NodeExternalIP && err == nil:
			m.ExternalAddresses = append(m.ExternalAddresses, addr)
		case a.Type == corev1.NodeInternalDNS, a.Type == corev1.NodeExternalDNS:
			o.mark(noted, path)
			r.note(o, path, NoCounterpart, fmt.Sprintf("%s %q: machines have addresses and a hostname", a.Type, a.Address))
		default:
			o.mark(noted, path)
			r.note(o, path, NotValid, fmt.Sprintf("%s %q is no address that a machine can have", a.Type, a.Address))
		}
	}
}

// providedNodeIP is the annotation in which a kubelet keeps what it was told by --node-ip.
const providedNodeIP = "alpha.kubernetes.io/provided-node-ip"

// providedAddresses are those of a Node that waits for a cloud provider, which has none in its status.
func (r *nodeReader) providedAddresses(o *object, n *corev1.Node, m *inventory.Machine) {
	if len(m.Addresses) > 0 {
		return
	}
	for text := range strings.SplitSeq(n.Annotations[providedNodeIP], ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			m.Addresses = append(m.Addresses, a)
			o.mark(carried, join("metadata.annotations", providedNodeIP))
		}
	}
}

func (r *nodeReader) podCIDRs(o *object, n *corev1.Node, m *inventory.Machine) {
	o.mark(carried, "spec.podCIDRs")
	for i, text := range n.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			path := fmt.Sprintf("spec.podCIDRs[%d]", i)
			o.mark(noted, path)
			r.note(o, path, NotValid, fmt.Sprintf("%q is not a prefix", text))
			continue
		}
		m.PodCIDRs = append(m.PodCIDRs, p.Masked())
	}
}

// labels takes those of place and type, and with --labels all that no part of Kubernetes keeps.
func (r *nodeReader) labels(o *object, n *corev1.Node, m *inventory.Machine) {
	for key, value := range n.Labels {
		path := join("metadata.labels", key)
		switch {
		case key == corev1.LabelInstanceTypeStable, key == corev1.LabelTopologyZone, key == r.rackBy:
			o.mark(carried, path)
		case key == corev1.LabelTopologyRegion && value != r.region:
			o.mark(noted, path)
			r.note(o, path, Differs, fmt.Sprintf("%q; other Nodes have another region, and an inventory has one: it is left out, and Plinth will write its own", value))
		case key == corev1.LabelTopologyRegion:
			o.mark(carried, path)
		case r.options.Labels && !ofKubernetes(key):
			o.mark(carried, path)
			if m.Labels == nil {
				m.Labels = map[string]string{}
			}
			m.Labels[key] = value
		}
	}
}

// ofKubernetes reports whether a label or taint is of a part of Kubernetes, or of Plinth, which keep their own.
func ofKubernetes(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "kubernetes.io" || domain == "k8s.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") ||
		domain == "plinth.dev" || strings.HasSuffix(domain, ".plinth.dev"))
}

func (r *nodeReader) taints(o *object, n *corev1.Node, m *inventory.Machine) {
	for i, t := range n.Spec.Taints {
		if ofKubernetes(t.Key) {
			continue
		}
		o.mark(carried, fmt.Sprintf("spec.taints[%d]", i))
		o.mark(meaningless, fmt.Sprintf("spec.taints[%d].timeAdded", i))
		m.Taints = append(m.Taints, inventory.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
}

// racksAreSubnets reports whether racks are made of networks: that is asked for, no Node has a label that racks are made by, and their first
// addresses lie in several. It is told, for networks are guessed.
func (r *nodeReader) racksAreSubnets(all []*corev1.Node) bool {
	var networks []string
	for _, n := range all {
		if n.Labels[r.rackBy] != "" {
			return false
		}
		if a, ok := r.firstAddress(n); ok && !slices.Contains(networks, networkOf(a).String()) {
			networks = append(networks, networkOf(a).String())
		}
	}
	if !r.options.RackBySubnet || len(networks) < 2 {
		return false
	}
	r.guess("spec.racks", fmt.Sprintf("no Node has the label %s, and their addresses are taken to lie in %s: each is a rack. Say which label names a Node's rack (--rack-by), or the one network that all lie in (--network)",
		r.rackBy, strings.Join(networks, ", ")))
	return true
}

// firstAddress is the first one that the machine of a Node will have.
func (r *nodeReader) firstAddress(n *corev1.Node) (netip.Addr, bool) {
	var texts []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			texts = append(texts, a.Address)
		}
	}
	for _, text := range append(texts, strings.Split(n.Annotations[providedNodeIP], ",")...) {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			return a, true
		}
	}
	if said := r.options.Addresses[n.Name]; len(said) > 0 {
		return said[0], true
	}
	return netip.Addr{}, false
}

// networkOf is the network that an address is guessed to lie in.
func networkOf(a netip.Addr) netip.Prefix { return around(inventory.Range{First: a, Last: a}) }

// rackOf is the rack that a Node's label names, or its network. Its zone is that of the first Node in it.
func (r *nodeReader) rackOf(o *object, n *corev1.Node, addresses []netip.Addr) string {
	value, zone := n.Labels[r.rackBy], n.Labels[corev1.LabelTopologyZone]
	if r.bySubnet && len(addresses) > 0 {
		value = "subnet-" + strings.NewReplacer(".", "-", "::", "", ":", "-").Replace(networkOf(addresses[0]).Addr().String())
	}
	name, sameZone := r.rackFor(value, value, zone, func(message string) { r.note(o, join("metadata.labels", r.rackBy), Renamed, message) })
	if !sameZone {
		path := join("metadata.labels", corev1.LabelTopologyZone)
		o.mark(noted, path)
		r.note(o, path, Differs, fmt.Sprintf("%q; other Nodes of rack %s have %q, and a rack has one zone: the first one's is taken", zone, name, r.draft.rack(name).Zone))
	}
	return name
}
