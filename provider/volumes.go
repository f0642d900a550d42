package provider

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
)

var _ cloudprovider.PVLabeler = (*Cloud)(nil)

// GetLabelsForVolume returns region, zone and rack of a PersistentVolume: those
// of the storage of the inventory that it lives in, or of the Node that a local
// volume is on. There are none for a volume that the inventory does not know.
func (c *Cloud) GetLabelsForVolume(_ context.Context, pv *v1.PersistentVolume) (map[string]string, error) {
	inv := c.inventory()
	if inv == nil {
		return nil, errNoInventory
	}
	if pv.Spec.Local != nil {
		return c.localVolumeLabels(pv)
	}
	for _, v := range volumes(pv.Spec.PersistentVolumeSource) {
		if s, ok := inv.StorageOf(v); ok {
			out := maps.Clone(inv.VolumeLabels(s))
			out[inventory.LabelRack] = s.Rack
			return out, nil
		}
	}
	return nil, nil
}

// volumes is what a PersistentVolume says about where its data lies, once for
// each way that leads there.
func volumes(source v1.PersistentVolumeSource) []inventory.Volume {
	switch {
	case source.NFS != nil:
		return []inventory.Volume{{NFSServer: source.NFS.Server}}
	case source.CSI != nil:
		return []inventory.Volume{{CSIDriver: source.CSI.Driver, CSIAttributes: source.CSI.VolumeAttributes}}
	case source.ISCSI != nil:
		var out []inventory.Volume
		for _, portal := range append([]string{source.ISCSI.TargetPortal}, source.ISCSI.Portals...) {
			out = append(out, inventory.Volume{ISCSIPortal: portal})
		}
		return out
	}
	return nil
}

// localVolumeLabels places a local volume where its Node is.
func (c *Cloud) localVolumeLabels(pv *v1.PersistentVolume) (map[string]string, error) {
	node, err := c.nodeOfVolume(pv)
	if node == nil || err != nil {
		return nil, err
	}
	inv, m, err := c.machineOf(node)
	if errors.Is(err, inventory.ErrNoMachine) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, key := range []string{inventory.LabelRegion, inventory.LabelZone, inventory.LabelRack} {
		out[key] = inv.Labels(m)[key]
	}
	return out, nil
}

// nodeOfVolume returns the one Node whose host name a volume requires; nil where
// there is none, or a choice.
func (c *Cloud) nodeOfVolume(pv *v1.PersistentVolume) (*v1.Node, error) {
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
	slices.Sort(hosts)
	if hosts = slices.Compact(hosts); len(hosts) != 1 {
		return nil, nil
	}
	nodes, err := c.nodes.List(labels.SelectorFromSet(labels.Set{v1.LabelHostname: hosts[0]}))
	if err != nil || len(nodes) != 1 {
		return nil, err
	}
	return nodes[0], nil
}
