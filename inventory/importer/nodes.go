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
func readNodes(into *draft) {
	var all []*corev1.Node
	var objects []*object
	for o, n := range decoded[corev1.Node](into, "", "Node") {
		all, objects = append(all, n), append(objects, o)
	}
	r := nodeReader{draft: into, uuids: uuidsOf(all), ids: map[string]string{}, rackBy: rackLabelOf(into, all)}
	r.bySubnet = r.racksAreSubnets(all)
	r.region = sameOf(all, corev1.LabelTopologyRegion)
	into.inv.Region = r.region
	for i, n := range all {
		r.machine(objects[i], n)
	}
}

// nodeSelectors returns the selectors of all objects that were read, but for those of programs' pods, which follow roles.
func (d *draft) nodeSelectors() (all []inventory.Selector) {
	for _, obj := range d.objects {
		if obj.group() == "" || obj.group() == "apps" {
			continue
		}
		labels := map[string]string{}
		var asked []inventory.Requirement
		for _, leaf := range obj.leaves() {
			if !strings.HasPrefix(leaf.path, "spec.nodeSelector") {
				continue
			}
			if _, key, ok := strings.Cut(leaf.path, ".matchLabels"); ok {
				labels[strings.Trim(key, ".[]")] = leaf.node.Value
			} else if strings.HasSuffix(leaf.path, "].key") {
				asked = append(asked, inventory.Requirement{Key: leaf.node.Value})
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

func (r *nodeReader) machine(obj *object, given *corev1.Node) {
	obj.mark(meaningless, "spec", "status")
	obj.mark(carried, "spec.providerID", "status.addresses")
	made := inventory.Machine{Name: given.Name, ID: given.Name, OwnState: inventory.StateActive, State: inventory.StateActive, Type: given.Labels[corev1.LabelInstanceTypeStable]}
	if !inventoryName.MatchString(given.Name) {
		r.fail(obj, "metadata.name", NotValid, "no machine can have this name")
		return
	}
	r.providerID(obj, given, &made)
	r.addresses(obj, given, &made)
	r.providedAddresses(obj, given, &made)
	if len(made.Addresses) == 0 {
		made.Addresses = slices.Clone(r.options.Addresses[given.Name])
	}
	if u, ok := inventory.ParseUUID(given.Status.NodeInfo.SystemUUID); ok && r.uuids[inventory.ReportedUUID(u.String())] == 1 {
		made.SystemUUID = inventory.ReportedUUID(u.String())
		obj.mark(carried, "status.nodeInfo.systemUUID")
	}
	if r.options.PodNetwork {
		r.podCIDRs(obj, given, &made)
	}
	r.labels(obj, given, &made)
	r.taints(obj, given, &made)
	made.Rack = r.rackOf(obj, given, made.Addresses)
	if len(made.Addresses) == 0 {
		made.OwnState, made.State = inventory.StatePlanned, inventory.StatePlanned
		r.note(obj, "status.addresses", Guessed, "the Node has no address yet: the machine is planned. Give it its addresses, and take the state away")
	}
	r.addMachine(made, obj)
	r.nodes = append(r.nodes, node{given.Name, given.Labels, made.Rack})
}

// providerID carries over the provider ID of a Node: one of Plinth's is the machine's id, another one an alias.
func (r *nodeReader) providerID(obj *object, node *corev1.Node, machine *inventory.Machine) {
	switch id, ours := strings.CutPrefix(node.Spec.ProviderID, inventory.ProviderScheme+"://"); {
	case node.Spec.ProviderID == "":
	case ours:
		machine.ID = id
	default:
		machine.Aliases = []string{node.Spec.ProviderID}
	}
	if other := r.ids[machine.ID]; other != "" {
		r.fail(obj, "spec.providerID", NotValid, fmt.Sprintf("node %s has the same: one of them is another machine", other))
	}
	r.ids[machine.ID] = node.Name
}

func (r *nodeReader) addresses(obj *object, node *corev1.Node, machine *inventory.Machine) {
	hostname := false
	for i, address := range node.Status.Addresses {
		path := fmt.Sprintf("status.addresses[%d]", i)
		addr, err := netip.ParseAddr(address.Address)
		why := r.unusable(addr, *machine)
		switch {
		case address.Type == corev1.NodeHostName && hostname:
			r.markAndNote(obj, path, Differs, fmt.Sprintf("Hostname %q is a second one, and a machine has one", address.Address))
		case address.Type == corev1.NodeHostName:
			hostname = true
			machine.Hostname = address.Address
			if address.Address == node.Name {
				machine.Hostname = ""
				obj.mark(meaningless, path)
			}
		case why != "" && err == nil:
			r.markAndNote(obj, path, NotValid, fmt.Sprintf("%s %v %s: it is left out", address.Type, addr, why))
		case address.Type == corev1.NodeInternalIP && err == nil:
			machine.Addresses = append(machine.Addresses, addr)
		case address.Type == corev1.NodeExternalIP && err == nil:
			machine.ExternalAddresses = append(machine.ExternalAddresses, addr)
		case address.Type == corev1.NodeInternalDNS, address.Type == corev1.NodeExternalDNS:
			r.markAndNote(obj, path, NoCounterpart, fmt.Sprintf("%s %q: machines have addresses and a hostname", address.Type, address.Address))
		default:
			r.markAndNote(obj, path, NotValid, fmt.Sprintf("%s %q is no address that a machine can have", address.Type, address.Address))
		}
	}
}

// providedNodeIP is the annotation in which a kubelet keeps what it was told by --node-ip.
const providedNodeIP = "alpha.kubernetes.io/provided-node-ip"

// providedAddresses adds the addresses of a Node that waits for a cloud provider, which has none in its status.
func (r *nodeReader) providedAddresses(obj *object, n *corev1.Node, machine *inventory.Machine) {
	if len(machine.Addresses) > 0 {
		return
	}
	for text := range strings.SplitSeq(n.Annotations[providedNodeIP], ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			machine.Addresses = append(machine.Addresses, a)
			obj.mark(carried, join("metadata.annotations", providedNodeIP))
		}
	}
}

func (r *nodeReader) podCIDRs(obj *object, n *corev1.Node, machine *inventory.Machine) {
	obj.mark(carried, "spec.podCIDRs")
	for i, text := range n.Spec.PodCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			r.markAndNote(obj, fmt.Sprintf("spec.podCIDRs[%d]", i), NotValid, fmt.Sprintf("%q is not a prefix", text))
			continue
		}
		machine.PodCIDRs = append(machine.PodCIDRs, prefix.Masked())
	}
}

// labels takes those of place and type, and with --labels all that no part of Kubernetes keeps.
func (r *nodeReader) labels(obj *object, n *corev1.Node, machine *inventory.Machine) {
	for key, value := range n.Labels {
		path := join("metadata.labels", key)
		switch {
		case key == corev1.LabelInstanceTypeStable, key == corev1.LabelTopologyZone, key == r.rackBy:
			obj.mark(carried, path)
		case key == corev1.LabelTopologyRegion && value != r.region:
			r.markAndNote(obj, path, Differs, fmt.Sprintf("%q; other Nodes have another region, and an inventory has one: it is left out, and Plinth will write its own", value))
		case key == corev1.LabelTopologyRegion:
			obj.mark(carried, path)
		case r.options.Labels && !ofKubernetes(key):
			obj.mark(carried, path)
			put(&machine.Labels, key, value)
		}
	}
}

// ofKubernetes reports whether a label or taint is of a part of Kubernetes, or of Plinth, which keep their own.
func ofKubernetes(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "kubernetes.io" || domain == "k8s.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") ||
		domain == "plinth.dev" || strings.HasSuffix(domain, ".plinth.dev"))
}

func (r *nodeReader) taints(obj *object, n *corev1.Node, machine *inventory.Machine) {
	for i, taint := range n.Spec.Taints {
		if ofKubernetes(taint.Key) {
			continue
		}
		obj.mark(carried, fmt.Sprintf("spec.taints[%d]", i))
		obj.mark(meaningless, fmt.Sprintf("spec.taints[%d].timeAdded", i))
		machine.Taints = append(machine.Taints, inventory.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)})
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
func (r *nodeReader) firstAddress(node *corev1.Node) (netip.Addr, bool) {
	var texts []string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			texts = append(texts, a.Address)
		}
	}
	for _, text := range append(texts, strings.Split(node.Annotations[providedNodeIP], ",")...) {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			return a, true
		}
	}
	if said := r.options.Addresses[node.Name]; len(said) > 0 {
		return said[0], true
	}
	return netip.Addr{}, false
}

// networkOf is the network that an address is guessed to lie in.
func networkOf(a netip.Addr) netip.Prefix { return around(inventory.Range{First: a, Last: a}) }

// rackOf is the rack that a Node's label names, or its network. Its zone is that of the first Node in it.
func (r *nodeReader) rackOf(obj *object, n *corev1.Node, addresses []netip.Addr) string {
	value, zone := n.Labels[r.rackBy], n.Labels[corev1.LabelTopologyZone]
	if r.bySubnet && len(addresses) > 0 {
		value = "subnet-" + strings.NewReplacer(".", "-", "::", "", ":", "-").Replace(networkOf(addresses[0]).Addr().String())
	}
	name, sameZone := r.rackFor(value, value, zone, func(message string) { r.note(obj, join("metadata.labels", r.rackBy), Renamed, message) })
	if !sameZone {
		r.markAndNote(obj, join("metadata.labels", corev1.LabelTopologyZone), Differs, fmt.Sprintf("%q; other Nodes of rack %s have %q, and a rack has one zone: the first one's is taken", zone, name, r.draft.rack(name).Zone))
	}
	return name
}
