package volume

import (
	"errors"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"plinth.dev/plinth/inventory"
)

// Places knows where PersistentVolumes are.
type Places struct {
	Nodes     corelisters.NodeLister
	MachineOf func(*v1.Node) (*inventory.Inventory, inventory.Machine, error) // an error that is ErrNoMachine: none
}

// Labels returns region, zone and rack of a PersistentVolume: those of the storage of the
// inventory that it lives in, or of the Node that a local volume is on. There are none for
// a volume that the inventory does not know.
func (p Places) Labels(inv *inventory.Inventory, pv *v1.PersistentVolume) (map[string]string, error) {
	if pv.Spec.Local != nil {
		return p.localLabels(pv)
	}
	for _, v := range sources(pv.Spec.PersistentVolumeSource) {
		if s, ok := inv.StorageOf(v); ok {
			out := maps.Clone(inv.VolumeLabels(s))
			out[inventory.LabelRack] = s.Rack
			return out, nil
		}
	}
	return nil, nil
}

// sources returns the sources that a PersistentVolume names for its data, once for
// each way that leads there.
func sources(source v1.PersistentVolumeSource) []inventory.Volume {
	switch {
	case source.NFS != nil:
		return []inventory.Volume{{NFSServer: inventory.ServerOf(source.NFS.Server)}}
	case source.CSI != nil:
		return []inventory.Volume{{CSIDriver: source.CSI.Driver, CSIAttributes: source.CSI.VolumeAttributes}}
	case source.ISCSI != nil:
		var out []inventory.Volume
		for _, portal := range append([]string{source.ISCSI.TargetPortal}, source.ISCSI.Portals...) {
			out = append(out, inventory.Volume{ISCSIPortal: inventory.PortalOf(portal)})
		}
		return out
	}
	return nil
}

// localLabels places a local volume where its Node is.
func (p Places) localLabels(pv *v1.PersistentVolume) (map[string]string, error) {
	node, err := p.nodeOf(pv)
	if node == nil || err != nil {
		return nil, err
	}
	inv, machine, err := p.MachineOf(node)
	if errors.Is(err, inventory.ErrNoMachine) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, key := range []string{inventory.LabelRegion, inventory.LabelZone, inventory.LabelRack} {
		out[key] = inv.Labels(machine)[key]
	}
	return out, nil
}

// nodeOf returns the one Node whose host name a volume requires; nil where
// there is none, or a choice.
func (p Places) nodeOf(pv *v1.PersistentVolume) (*v1.Node, error) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil, nil
	}
	var hosts []string
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == v1.LabelHostname && e.Operator == v1.NodeSelectorOpIn {
				hosts = append(hosts, e.Values...)
			}
		}
	}
	if hosts = inventory.SortedOnce(hosts); len(hosts) != 1 {
		return nil, nil
	}
	nodes, err := p.Nodes.List(labels.SelectorFromSet(labels.Set{v1.LabelHostname: hosts[0]}))
	if err != nil || len(nodes) != 1 {
		return nil, err
	}
	return nodes[0], nil
}
