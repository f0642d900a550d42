package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Labels of a Node that Plinth keeps.
const (
	LabelRegion = "topology.kubernetes.io/region"
	LabelZone   = "topology.kubernetes.io/zone"
	LabelType   = "node.kubernetes.io/instance-type"
	LabelRack   = "plinth.dev/rack"
	LabelRow    = "plinth.dev/row"
	LabelUnit   = "plinth.dev/unit"
)

// LabelDomainTaints is the domain of the labels that say which taints of a Node are Plinth's;
// its subdomains belong to it.
const LabelDomainTaints = "plinth.node-restriction.kubernetes.io"

// BetaTwins are deprecated labels that Kubernetes copies over the new ones, so
// that both must be kept.
var BetaTwins = map[string]string{
	LabelRegion: "failure-domain.beta.kubernetes.io/region",
	LabelZone:   "failure-domain.beta.kubernetes.io/zone",
	LabelType:   "beta.kubernetes.io/instance-type",
}

// TaintMaintenance is on the Node of a machine in maintenance.
var TaintMaintenance = Taint{Key: "plinth.dev/maintenance", Effect: "NoSchedule"}

// Labels returns every label that Plinth keeps on the machine's Node. A
// machine's own label wins over that of the spec.
func (inv *Inventory) Labels(machine Machine) map[string]string {
	out := maps.Clone(inv.NodeLabels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, machine.Labels)
	rack, _ := inv.Rack(machine.Rack)
	place := map[string]string{LabelRegion: inv.Region, LabelZone: rack.Zone, LabelType: machine.Type, LabelRack: machine.Rack, LabelRow: rack.Row}
	if machine.Unit > 0 {
		place[LabelUnit] = strconv.Itoa(machine.Unit)
	}
	for k, value := range place {
		if value == "" {
			continue
		}
		out[k] = value
		if twin, ok := BetaTwins[k]; ok {
			out[twin] = value
		}
	}
	return out
}

// NodeTaints returns every taint that Plinth keeps on the machine's Node, sorted by
// key, effect and value.
func (m *Machine) NodeTaints() []Taint {
	out := slices.Clone(m.Taints)
	if m.State == StateMaintenance {
		out = append(out, TaintMaintenance)
	}
	slices.SortFunc(out, Taint.Compare)
	return slices.Compact(out)
}

// Compare orders taints by key, effect and value.
func (t Taint) Compare(o Taint) int {
	return cmp.Or(cmp.Compare(t.Key, o.Key), cmp.Compare(t.Effect, o.Effect), cmp.Compare(t.Value, o.Value))
}
