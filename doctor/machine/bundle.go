package machine

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/inventory"
)

// bundleKind is the type of the document that a bundle is.
const bundleKind = "MachineBundle"

// bundle is the form of a bundle.
type bundle struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Machine    Facts  `json:"machine"`
}

// Bundle is the facts as one YAML document, for whoever is asked for help.
func (f Facts) Bundle() ([]byte, error) {
	return yaml.Marshal(bundle{APIVersion: inventory.APIVersion, Kind: bundleKind, Machine: f})
}

// Open reads a bundle. Its error is [doctor.ErrNoBundle].
func Open(text []byte) (Facts, error) {
	var opened bundle
	if err := yaml.UnmarshalStrict(text, &opened); err != nil {
		return Facts{}, fmt.Errorf("%w machine: %w", doctor.ErrNoBundle, err)
	}
	if opened.APIVersion != inventory.APIVersion || opened.Kind != bundleKind {
		return Facts{}, fmt.Errorf("%w machine: want apiVersion %s and kind %s, got %q and %q", doctor.ErrNoBundle, inventory.APIVersion, bundleKind, opened.APIVersion, opened.Kind)
	}
	return opened.Machine, nil
}
