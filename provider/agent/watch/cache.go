package watch

import (
	"context"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// objectCache is a cache of the objects of one kind, each reduced to the part that the agent needs:
// an informer would keep whole objects. It is filled by a reflector.
//
// Its lock is shared by all caches of an agent, so that a snapshot is of one moment.
type objectCache[V any] struct {
	name   string
	mu     *sync.Mutex
	reduce func(obj any) V               // what is needed of an object
	change func(key string, old, new *V) // with the lock held; nil: it is not there
	// believe reports whether a list may take away what was there, by the keys that it
	// has; nil: it always may.
	believe func(there map[string]bool) bool
	changed func() // something that is needed changed

	items    map[string]V
	synced   bool
	lastSeen time.Time // the latest word of the API server's, bookmarks included; at first: since when it is asked
}

func newCache[V any](name string, mu *sync.Mutex, reduce func(any) V, changed func()) *objectCache[V] {
	return &objectCache[V]{
		name: name, mu: mu, reduce: reduce, changed: changed,
		change: func(string, *V, *V) {}, items: map[string]V{}, lastSeen: time.Now(),
	}
}

// typed is the part of a client for one kind that a cache needs.
type typed[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// reconnect bounds how long the agent stays behind once the API server is back.
var reconnect = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 5 * time.Second}

// whole has a list come as one answer. Streamed as a watch's first events, each of ten
// thousand objects is a message of its own, and they take several times as long.
type whole struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported reports that lists are not streamed; a reflector asks this first.
func (whole) IsWatchListSemanticsUnSupported() bool { return true }

// follow fills the cache from the objects of a client until the context ends.
func follow[V any, L runtime.Object](ctx context.Context, followed *objectCache[V], client typed[L], example any, labels, fields string) {
	narrow := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = labels, fields }
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			if o.ResourceVersion == "0" {
				o.ResourceVersion, o.Limit = "", 0 // of now: one of a server that lags behind could have us withdraw what is in use
			}
			l, err := client.List(ctx, o)
			if err == nil {
				followed.see()
			}
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			narrow(&o)
			if err := notRestored(ctx, client, o); err != nil {
				return nil, err
			}
			w, err := client.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { followed.see(); return e, true }), nil
		},
	}
	backoff := reconnect
	r := cache.NewReflectorWithOptions(whole{lw}, example, followed, cache.ReflectorOptions{Name: "agent " + followed.name, Backoff: &backoff})
	r.RunWithContext(ctx)
}

// notRestored returns an error that has everything listed anew if a watch is to go on
// from a resource version that is yet to come: etcd was restored from a backup, and the
// watch would say nothing until then (kubernetes/kubernetes#107457).
func notRestored[L runtime.Object](ctx context.Context, client typed[L], options metav1.ListOptions) error {
	if options.ResourceVersion == "" || options.SendInitialEvents != nil {
		return nil // it begins with a list
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector, Limit: 1})
	if err != nil {
		return err
	}
	now, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	if order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), options.ResourceVersion); err == nil && order < 0 {
		return apierrors.NewResourceExpired("the store has gone back to resource version " + now.GetResourceVersion())
	}
	return nil
}

func (m *objectCache[V]) see() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastSeen = time.Now()
}

// put stores one object and reports whether anything that is needed changed.
func (m *objectCache[V]) put(obj any) bool {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return false
	}
	value := m.reduce(obj)
	old, had := m.items[key]
	if had && reflect.DeepEqual(old, value) {
		return false
	}
	m.items[key] = value
	if had {
		m.change(key, &old, &value)
	} else {
		m.change(key, nil, &value)
	}
	return true
}

func (m *objectCache[V]) drop(key string) bool {
	old, had := m.items[key]
	if had {
		delete(m.items, key)
		m.change(key, &old, nil)
	}
	return had
}

// locked runs do with the lock held, and afterwards tells of the change if do says
// that there was one.
func (m *objectCache[V]) locked(do func() bool) error {
	m.mu.Lock()
	changed := do()
	m.mu.Unlock()
	if changed {
		m.changed()
	}
	return nil
}

// Add implements [cache.ReflectorStore], as do the methods that follow.
func (m *objectCache[V]) Add(obj any) error { return m.locked(func() bool { return m.put(obj) }) }

// Update implements [cache.ReflectorStore].
func (m *objectCache[V]) Update(obj any) error { return m.Add(obj) }

// Delete implements [cache.ReflectorStore].
func (m *objectCache[V]) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	return m.locked(func() bool { return m.drop(key) })
}

// Replace implements [cache.ReflectorStore]: it is the answer to a list.
func (m *objectCache[V]) Replace(objs []any, _ string) error {
	return m.locked(func() bool {
		changed := !m.synced
		m.synced = true
		there := make(map[string]bool, len(objs))
		for _, obj := range objs {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				there[key] = true
			}
			changed = m.put(obj) || changed
		}
		if m.believe != nil && !m.believe(there) {
			return changed
		}
		for key := range m.items {
			if !there[key] {
				changed = m.drop(key) || changed
			}
		}
		return changed
	})
}

// Resync implements [cache.ReflectorStore]; the agent's own full passes do more.
func (m *objectCache[V]) Resync() error { return nil }
