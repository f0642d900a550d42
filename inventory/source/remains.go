package source

import (
	"cmp"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// remains returns the readable part of the accepted inventory, one ConfigMap after the other; nil: there is none. It
// is in force until more is known, if whole: it has the part that all racks share.
func (a accepted) remains() (inv *inventory.Inventory, whole bool) {
	common, until := a.commonThatRemains()
	lists := map[string]bool{}
	for rack, n := range listed(a.parts[AcceptedName], keyRacks) {
		lists[sliceName(rack, n)] = true
	}
	var parts []*inventory.Inventory
	for _, cm := range a.slices() {
		if n := generationOf(cm); until > 0 && n > until && !lists[cm.Name] {
			continue // it is of an edit that was not taken up
		}
		if part, _ := document.ParseAccepted(documentOf(cm)); part != nil {
			parts = append(parts, part)
		}
	}
	if common == nil && len(parts) == 0 {
		return nil, false
	}
	return inventory.Gather(common, parts...), common != nil
}

// commonThatRemains returns the part that all racks share, of the generation in force, or else of the one before; nil: neither
// can be read. No slice is of a later generation than the second result but those that are listed; 0: that is not known.
func (a accepted) commonThatRemains() (common *inventory.Inventory, until int64) {
	read := func(cm *v1.ConfigMap) *inventory.Inventory {
		if cm == nil || checkText(cm) != nil {
			return nil
		}
		inv, _ := document.ParseAccepted(documentOf(cm))
		return inv
	}
	now, before := a.parts[AcceptedName], a.parts[PreviousName]
	if before != nil {
		then := map[string]string{inventory.AnnotationFormat: cmp.Or(before.Annotations[annotationFormatThen], "1")}
		if inventory.CheckFormat("", then, document.ReadsFormat) != nil {
			before = nil
		}
	}
	switch {
	case now != nil:
		until = generationOf(now)
	case before != nil:
		until = generationOf(before) + 1
	}
	return cmp.Or(read(now), read(before)), until
}

// restWith returns the known part of an inventory that cannot be read as a whole, by what remains of it and by Nodes; nil: nothing is known.
func (a accepted) restWith(nodes []v1.Node) *inventory.Inventory {
	var parts []*inventory.Inventory
	if a.rest != nil {
		parts = append(parts, a.rest)
	}
	for i := range nodes {
		if of := ofNode(&nodes[i]); of != nil {
			parts = append(parts, of)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return inventory.Gather(a.rest, parts...)
}

// ofNode returns an inventory with the machine that a Node shows, in its rack; nil where it does not bear Plinth's labels.
func ofNode(node *v1.Node) *inventory.Inventory {
	rack := node.Labels[inventory.LabelRack]
	if rack == "" {
		return nil
	}
	machine := inventory.Machine{
		Name: node.Name, ID: node.Name, Rack: rack, Type: node.Labels[v1.LabelInstanceTypeStable], Carved: true,
		OwnState: inventory.StateActive, State: inventory.StateActive,
	}
	if id, ours := strings.CutPrefix(node.Spec.ProviderID, inventory.ProviderScheme+"://"); ours {
		machine.ID = id
	}
	for _, text := range node.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			machine.PodCIDRs = append(machine.PodCIDRs, p)
		}
	}
	for _, a := range node.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == v1.NodeInternalIP {
			machine.Addresses = append(machine.Addresses, addr)
		}
	}
	return &inventory.Inventory{Racks: []inventory.Rack{{
		Name: rack, Zone: cmp.Or(node.Labels[v1.LabelTopologyZone], rack), State: inventory.StateActive, Peers: []string{}, Machines: []inventory.Machine{machine},
	}}}
}
