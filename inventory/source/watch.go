package source

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/wake"
)

// How long ConfigMaps must be quiet until they are read as one edit, and how
// long a stream of changes may put that off.
const (
	quiet   = 200 * time.Millisecond
	patient = 2 * time.Second
)

// resync is the interval at which the objects that informers follow are read again, though nothing has changed.
const resync = 10 * time.Minute

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
	mark := func() { wake.Up(dirty) }
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

func informerOf(client kubernetes.Interface, namespace, name string) cache.SharedIndexInformer {
	return coreinformers.NewFilteredConfigMapInformer(client, namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { *o = named(*o, name) })
}

// named selects a single object.
func named(o metav1.ListOptions, name string) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return o
}

// inStore is the ConfigMap that an informer follows; nil: there is none.
func inStore(informer cache.SharedIndexInformer, namespace, name string) *v1.ConfigMap {
	obj, _, _ := informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String()) // a cache never fails
	cm, _ := obj.(*v1.ConfigMap)
	return cm
}

// withoutContent keeps of a ConfigMap that it is there, and in which version: only that it changed is of interest. What it is
// given stays whole, for a fake API server may hand out what it stores (Watch of client-go's ObjectTracker).
func withoutContent(obj any) (any, error) {
	cm, ok := obj.(*v1.ConfigMap)
	if !ok {
		return obj, nil
	}
	kept := cm.ObjectMeta
	kept.ManagedFields = nil
	return &v1.ConfigMap{ObjectMeta: kept}, nil
}
