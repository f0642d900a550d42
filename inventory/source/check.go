package source

import (
	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Check returns the problems of one ConfigMap that bears [LabelInventory] by itself: where
// one is an error, every edit with this ConfigMap in it is refused, whatever the others say.
func Check(cm *v1.ConfigMap) inventory.Problems {
	var proposed Edit
	proposed.add(cm)
	problems := append(document.Check(proposed.Documents...), proposed.Problems...)
	if name := inventoryIn(proposed.Documents); name != "" {
		problems = append(mislabelled(proposed.Carriers, name), problems...)
	}
	return problems
}
