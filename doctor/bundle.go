package doctor

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Type of the document that a bundle is.
const (
	bundleVersion = inventory.APIVersion
	bundleKind    = "DoctorBundle"
)

// bundle is the form of a bundle.
type bundle struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Cluster    Cluster `json:"cluster"`
	Inventory  string  `json:"inventory,omitempty"` // in its own form
}

// Bundle is the cluster as one YAML document, for whoever is asked for help. It has no secrets, and can be read before it is sent.
func (c Cluster) Bundle() ([]byte, error) {
	b := bundle{APIVersion: bundleVersion, Kind: bundleKind, Cluster: c}
	if c.Inventory != nil {
		b.Inventory = string(document.Format(reduced(c.Inventory)))
	}
	return yaml.Marshal(b)
}

// reduced is an inventory without what people write freely: labels, taints, reasons and where volumes are.
func reduced(inv *inventory.Inventory) *inventory.Inventory {
	out := *inv
	out.NodeLabels, out.Storage, out.Racks = nil, nil, slices.Clone(inv.Racks)
	for i := range out.Racks {
		machines := slices.Clone(out.Racks[i].Machines)
		for j := range machines {
			machines[j].Labels, machines[j].Taints, machines[j].Reason = nil, nil, ""
		}
		out.Racks[i].Machines = machines
	}
	return &out
}

// ErrNoBundle means that a text is none.
var ErrNoBundle = errors.New("it is no bundle of plinth doctor")

// Open reads a bundle.
func Open(text []byte) (Cluster, error) {
	var opened bundle
	if err := yaml.UnmarshalStrict(text, &opened); err != nil {
		return Cluster{}, fmt.Errorf("%w: %w", ErrNoBundle, err)
	}
	if opened.APIVersion != bundleVersion || opened.Kind != bundleKind {
		return Cluster{}, fmt.Errorf("%w: want apiVersion %s and kind %s, got %q and %q", ErrNoBundle, bundleVersion, bundleKind, opened.APIVersion, opened.Kind)
	}
	if opened.Inventory == "" {
		return opened.Cluster, nil
	}
	inv, problems := document.Parse(document.Document{Source: "the bundle's inventory", Data: []byte(opened.Inventory)})
	if err := problems.Err(); err != nil {
		return Cluster{}, err
	}
	opened.Cluster.Inventory = inv
	return opened.Cluster, nil
}
