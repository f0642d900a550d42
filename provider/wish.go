package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// fieldManager owns what Plinth applies to Nodes, and nothing else: what it no
// longer applies the API server removes, unless somebody else wants it too.
const fieldManager = "plinth"

// wish is all that the inventory wants of a Node.
type wish struct {
	labels     map[string]string
	taints     []inventory.Taint
	providerID string         // for a Node that has none
	podCIDRs   []netip.Prefix // for a Node that has none; at most one per family

	formerly map[string]bool // taints that were wanted of it before, as spelled prints them
}

func wishFor(inv *inventory.Inventory, m inventory.Machine) wish {
	return wish{labels: inv.Labels(m), taints: inv.Taints(m), providerID: m.ProviderID(), podCIDRs: m.PodCIDRs}
}

// nodePatch is a Node as server-side apply takes it. It is written out rather
// than built from client-go's types because those cannot say "no taints".
type nodePatch struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   metadataPatch `json:"metadata"`
	Spec       specPatch     `json:"spec"`
}

type metadataPatch struct {
	Name string `json:"name"`
	// UID and ResourceVersion make the API server refuse the patch where the
	// Node is another by now, or has changed.
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels,omitempty"`
}

type specPatch struct {
	ProviderID string      `json:"providerID,omitempty"`
	PodCIDR    string      `json:"podCIDR,omitempty"`
	PodCIDRs   []string    `json:"podCIDRs,omitempty"`
	Taints     *[]v1.Taint `json:"taints,omitempty"`
}

// owned says what of a Node the field manager applied earlier.
type owned struct {
	labels     []string // keys
	providerID bool
	podCIDRs   bool
	taints     bool
}

// ownedFields is the part of a FieldsV1 (KEP-555) that Plinth ever owns: a key
// "f:<name>" for each field.
type ownedFields struct {
	Metadata struct {
		Labels map[string]struct{} `json:"f:labels"`
	} `json:"f:metadata"`
	Spec map[string]json.RawMessage `json:"f:spec"`
}

// ownedOf reads the managed fields. It is asked at every change of a Node, and
// reads only these, which takes a tenth of the time of client-go's extraction.
func ownedOf(node *v1.Node) (owned, error) {
	at := slices.IndexFunc(node.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	if at < 0 || node.ManagedFields[at].FieldsV1 == nil {
		return owned{}, nil
	}
	var fields ownedFields
	if err := json.Unmarshal(node.ManagedFields[at].FieldsV1.GetRawBytes(), &fields); err != nil {
		return owned{}, fmt.Errorf("managed fields of node %s: %w", node.Name, err)
	}
	var o owned
	for key := range fields.Metadata.Labels {
		if label, ok := strings.CutPrefix(key, "f:"); ok {
			o.labels = append(o.labels, label)
		}
	}
	_, o.providerID = fields.Spec["f:providerID"]
	_, o.podCIDRs = fields.Spec["f:podCIDR"]
	_, o.taints = fields.Spec["f:taints"]
	return o, nil
}

// patch returns what must be applied to a Node so that it is as wished; ok is
// false where it is already.
func (w wish) patch(node *v1.Node) (patch nodePatch, ok bool, err error) {
	had, err := ownedOf(node)
	if err != nil {
		return nodePatch{}, false, err
	}
	taints, ours := mergeTaints(node.Spec.Taints, recordedOn(node, w.formerly), w.taints)
	labels := map[string]string{}
	maps.Copy(labels, w.labels)
	maps.Copy(labels, recordOf(ours)) // last: what is accepted from an older version may have such a label
	retainted := !equalTaints(taints, node.Spec.Taints)
	patch = nodePatch{APIVersion: "v1", Kind: "Node", Metadata: metadataPatch{
		Name: node.Name, UID: string(node.UID), ResourceVersion: node.ResourceVersion, Labels: labels,
	}}
	if retainted || had.taints {
		patch.setTaints(taints)
	}
	filled := w.fill(&patch.Spec, node, had)
	ok = filled || retainted || !labelled(labels, node, had)
	return patch, ok, nil
}

func (p *nodePatch) setTaints(taints []v1.Taint) {
	if taints == nil {
		taints = []v1.Taint{}
	}
	p.Spec.Taints = &taints
}

// fill sets what may be set only once, where the Node has it not; and repeats
// what Plinth set earlier, for what is left out of a patch is removed.
func (w wish) fill(spec *specPatch, node *v1.Node, had owned) (filled bool) {
	switch {
	case had.providerID:
		spec.ProviderID = node.Spec.ProviderID
	case node.Spec.ProviderID == "" && w.providerID != "":
		spec.ProviderID, filled = w.providerID, true
	}
	switch {
	case had.podCIDRs:
		spec.PodCIDR, spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
	case node.Spec.PodCIDR == "" && len(w.podCIDRs) > 0:
		for _, p := range w.podCIDRs {
			spec.PodCIDRs = append(spec.PodCIDRs, p.String())
		}
		spec.PodCIDR, filled = spec.PodCIDRs[0], true
	}
	return filled
}

// labelled reports whether the Node has every label that is wished for, and
// none that Plinth set earlier besides.
func labelled(labels map[string]string, node *v1.Node, had owned) bool {
	for k, v := range labels {
		if got, ok := node.Labels[k]; !ok || got != v {
			return false
		}
	}
	for _, k := range had.labels {
		if _, ok := labels[k]; !ok {
			return false
		}
	}
	return true
}

func (p nodePatch) bytes() ([]byte, error) { return json.Marshal(p) }

// initialising reports whether the stock controller has yet to make a Node's acquaintance.
func initialising(node *v1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == taintUninitialized })
}
