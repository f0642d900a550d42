package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// What people write on the ConfigMaps that carry an inventory.
const (
	LabelInventory = "plinth.dev/inventory" // the inventory's name
)

// How long ConfigMaps must be quiet until they are read as one edit, and how
// long a stream of changes may put that off.
const (
	quiet   = 200 * time.Millisecond
	patient = 2 * time.Second
)

// resync is how often what informers follow is read again, though nothing has changed.
const resync = 10 * time.Minute

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

// follow runs informers and calls changed, when they have synced and after each burst of
// changes; again after a pause where that fails.
func follow(ctx context.Context, changed func() error, informers ...cache.SharedIndexInformer) error {
	dirty := make(chan struct{}, 1)
	var synced []cache.InformerSynced
	for _, informer := range informers {
		registration, err := informer.AddEventHandler(touch(dirty))
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced) // of the handler: it has marked what was there
		go informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	select {
	case <-dirty:
	default:
	}
	pause := firstRetry
	for {
		var again <-chan time.Time
		if err := changed(); err == nil {
			pause = firstRetry
		} else {
			again, pause = time.After(pause), min(2*pause, lastRetry)
		}
		if !debounce(ctx, dirty, again) {
			return nil
		}
	}
}

// touch marks a state as dirty on every event.
func touch(dirty chan<- struct{}) cache.ResourceEventHandler {
	mark := func() {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { mark() },
		UpdateFunc: func(any, any) { mark() },
		DeleteFunc: func(any) { mark() },
	}
}

// debounce waits for a change and then for the end of the burst that it belongs
// to, or until it is time to try again. It returns false when ctx ends.
func debounce(ctx context.Context, dirty <-chan struct{}, again <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-again:
		return true
	case <-dirty:
	}
	limit := time.NewTimer(patient)
	defer limit.Stop()
	for {
		pause := time.NewTimer(quiet)
		select {
		case <-ctx.Done():
			return false
		case <-limit.C:
			return true
		case <-pause.C:
			return true
		case <-dirty:
			pause.Stop()
		}
	}
}

// Written reads what stands in the ConfigMaps at the moment. It lists the ConfigMaps of the namespace.
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

const labelMismatch = "the label names another inventory than metadata.name of the documents"

// mislabelled returns an error for each ConfigMap whose label names another
// inventory than its documents.
func mislabelled(carriers []Carrier, name string) inventory.Problems {
	var out inventory.Problems
	for _, c := range carriers {
		if c.Inventory != name {
			out = append(out, inventory.Problem{
				Source: carrierSource(c.ObjectReference), Severity: inventory.Error, Code: inventory.OtherInventory,
				Path: "metadata.labels[" + LabelInventory + "]", Message: labelMismatch,
				Value: c.Inventory, Accepted: name,
			})
		}
	}
	return out
}

// carrierSource is how problems name a ConfigMap; a key of it follows after a slash.
func carrierSource(r v1.ObjectReference) string {
	return fmt.Sprintf("configmap/%s/%s", r.Namespace, r.Name)
}

func reference(cm *v1.ConfigMap) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID}
}

func documentSource(cm *v1.ConfigMap, key string) string {
	return carrierSource(reference(cm)) + "/" + key
}
