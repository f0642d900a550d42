package source

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// PreviousName is the ConfigMap that has [AcceptedName] as it was in the generation before. It is read where
// that one is gone or spoilt, and by nobody else: to programs that do not know it, it is one that nobody lists.
const PreviousName = AcceptedName + ".previous"

// annotationFormatThen is on [PreviousName]: the number of the format that it was stored in. The
// annotation of the format itself is 1: older programs that list it must not take it for what is in force.
const annotationFormatThen = "plinth.dev/previous-format"

// previousOf is what is kept of the ConfigMap that lists the slices.
func previousOf(common *v1.ConfigMap) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: common.Data}
	cm.Name, cm.Labels = PreviousName, common.Labels
	cm.Annotations = map[string]string{AnnotationGeneration: strconv.FormatInt(generationOf(common), 10), inventory.AnnotationFormat: "1"}
	if format := common.Annotations[inventory.AnnotationFormat]; format != "" {
		cm.Annotations[annotationFormatThen] = format
	}
	return cm
}

// spoilt says what is wrong with the ConfigMap that lists the slices though it can be parsed: with keys
// missing it would be read as an inventory without pools, or without machines.
func (a accepted) spoilt(common *v1.ConfigMap) error {
	racks, there := common.Data[keyRacks]
	n := 0
	for range listed(common, keyRacks) {
		n++
	}
	if !there && len(a.slices()) > 0 || n != len(slices.Collect(strings.Lines(racks))) {
		return fmt.Errorf("%w: key %s of configmap %s does not list the racks", ErrUnreadable, keyRacks, common.Name)
	}
	return checkText(common)
}

// checkText returns an error where a ConfigMap has no text: as YAML that is no mistake.
func checkText(cm *v1.ConfigMap) error {
	if strings.TrimSpace(cm.Data[keyInventory]) == "" {
		return fmt.Errorf("%w: key %s of configmap %s is empty", ErrUnreadable, keyInventory, cm.Name)
	}
	return nil
}

// slices are those of racks, and their copies, the latest generation first.
func (a accepted) slices() (out []*v1.ConfigMap) {
	for name, cm := range a.parts {
		if name != PreviousName && (strings.HasPrefix(name, AcceptedName+".") || strings.HasPrefix(name, copyName(""))) {
			out = append(out, cm)
		}
	}
	slices.SortFunc(out, func(a, b *v1.ConfigMap) int {
		return cmp.Or(cmp.Compare(generationOf(b), generationOf(a)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// latest is the highest generation that any of the ConfigMaps is of: the next one is higher.
func (a accepted) latest() (n int64) {
	for _, cm := range a.parts {
		n = max(n, generationOf(cm))
	}
	return n
}

// remains is what can be read of what was accepted, one ConfigMap after the other; nil: nothing. It is in force
// until more is known, if whole says that it has what all racks share.
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

// commonThatRemains is what all racks share, of the generation in force, or else of the one before; nil: neither can be
// read. No slice is of a later generation than the second result but those that are listed; 0: that is not known.
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

// known is what an edit is held against: what is in force, or where that cannot be read as a whole what is known of
// it, by what remains and by the Nodes. Their pod CIDRs must not be given to others.
func (r *Reconciler) known(ctx context.Context) (*inventory.Inventory, error) {
	if r.spoilt == nil {
		return r.have.inventory, nil
	}
	nodes, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("what was accepted cannot be read, and it cannot be told which pod CIDRs Nodes have: %w", err)
	}
	var parts []*inventory.Inventory
	if r.have.rest != nil {
		parts = append(parts, r.have.rest)
	}
	for i := range nodes.Items {
		if of := ofNode(&nodes.Items[i]); of != nil {
			parts = append(parts, of)
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return inventory.Gather(r.have.rest, parts...), nil
}

// ofNode is the machine that a Node shows, in its rack; nil where it does not bear Plinth's labels.
func ofNode(n *v1.Node) *inventory.Inventory {
	rack := n.Labels[inventory.LabelRack]
	if rack == "" {
		return nil
	}
	m := inventory.Machine{
		Name: n.Name, ID: n.Name, Rack: rack, Type: n.Labels[v1.LabelInstanceTypeStable], Carved: true,
		OwnState: inventory.StateActive, State: inventory.StateActive,
	}
	if id, ours := strings.CutPrefix(n.Spec.ProviderID, inventory.ProviderScheme+"://"); ours {
		m.ID = id
	}
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			m.PodCIDRs = append(m.PodCIDRs, p)
		}
	}
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == v1.NodeInternalIP {
			m.Addresses = append(m.Addresses, addr)
		}
	}
	return &inventory.Inventory{Racks: []inventory.Rack{{
		Name: rack, Zone: cmp.Or(n.Labels[v1.LabelTopologyZone], rack), State: inventory.StateActive, Peers: []string{}, Machines: []inventory.Machine{m},
	}}}
}
