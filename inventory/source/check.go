package source

import (
	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// Check returns what one ConfigMap that bears [LabelInventory] shows to be wrong by itself: where
// that is an error, every edit with this ConfigMap in it is refused, whatever the others say.
func Check(cm *v1.ConfigMap) inventory.Problems {
	var edit Edit
	edit.add(cm)
	problems := append(inventory.Check(edit.Documents...), edit.Problems...)
	if name := inventoryIn(edit.Documents); name != "" {
		problems = append(mislabelled(edit.Carriers, name), problems...)
	}
	return problems
}
