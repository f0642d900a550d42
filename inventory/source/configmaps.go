package source

import (
	"context"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// ConfigMaps follows the ConfigMaps of a namespace that bear [LabelInventory].
type ConfigMaps struct {
	Client    kubernetes.Interface
	Namespace string
}

// Run implements [Source]. The first edit is handed out when the list of
// ConfigMaps is complete, even if it is empty.
func (c ConfigMaps) Run(ctx context.Context, set func(Edit)) error {
	informer := coreinformers.NewFilteredConfigMapInformer(c.Client, c.Namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = LabelInventory })
	return follow(ctx, func() error { set(read(informer.GetStore())); return nil }, informer)
}

// Written reads the current edit from the ConfigMaps. It lists the ConfigMaps of the namespace.
func (c ConfigMaps) Written(ctx context.Context) (Edit, error) {
	list, err := c.Client.CoreV1().ConfigMaps(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelInventory})
	if err != nil {
		return Edit{}, err
	}
	var all []*v1.ConfigMap
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return editIn(all), nil
}

// read makes an edit of all ConfigMaps of a store.
func read(store cache.Store) Edit {
	var all []*v1.ConfigMap
	for _, obj := range store.List() {
		all = append(all, obj.(*v1.ConfigMap))
	}
	return editIn(all)
}

func editIn(all []*v1.ConfigMap) Edit {
	kept, passed, even := latestCopies(all)
	proposed := editOfKept(kept, passed)
	if len(even) == 0 {
		return proposed
	}
	for _, choice := range choices(kept, even) {
		proposed.either = append(proposed.either, editOfKept(choice, slices.Concat(passed, even.passedOver(choice))))
	}
	proposed.Problems = append(proposed.Problems, even.problems()...)
	return proposed
}

func editOfKept(kept []*v1.ConfigMap, passed inventory.Problems) (proposed Edit) {
	for _, cm := range kept {
		proposed.add(cm)
	}
	proposed.Problems = append(proposed.Problems, passed...)
	return proposed
}

func (e *Edit) add(cm *v1.ConfigMap) {
	e.Carriers = append(e.Carriers, Carrier{reference(cm), cm.Labels[LabelInventory]})
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		if carries(key) {
			e.Documents = append(e.Documents, document.Document{Source: documentSource(cm, key), Data: []byte(cm.Data[key])})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		if carries(key) {
			e.Documents = append(e.Documents, document.Document{Source: documentSource(cm, key), Data: cm.BinaryData[key]})
		}
	}
	e.Allowance.Digests = append(e.Allowance.Digests, edit.AllowedBy(cm.Annotations[edit.AnnotationAllow])...)
	written, ok := cm.Annotations[edit.AnnotationAllowRemovals]
	if !ok {
		return
	}
	n, err := strconv.Atoi(written)
	if err != nil || n < 0 {
		e.Problems = append(e.Problems, badAllowance(cm, written))
		return
	}
	e.Allowance.Removals = max(e.Allowance.Removals, n)
}

// badAllowance is a warning: without the annotation's leave the removals are
// refused, and the edit says why.
func badAllowance(cm *v1.ConfigMap, written string) inventory.Problem {
	return inventory.Problem{
		Source: carrierSource(reference(cm)), Severity: inventory.Warning, Code: inventory.BadLimit,
		Path: "metadata.annotations[" + edit.AnnotationAllowRemovals + "]", Message: "not a number of machines, so it allows nothing",
		Value: written, Accepted: "a whole number, such as \"3\"",
	}
}
