package claim

import (
	"context"
	"errors"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb/ipam"
)

var _ cache.ReflectorStore = (*Journal)(nil)

// follow has the journal know the objects until ctx ends.
func (j *Journal) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		j.mu.Lock()
		j.relist, j.version = stop, ""
		j.mu.Unlock()
		cache.NewReflector(j.listing(), &networkingv1.IPAddress{}, j, 0).RunWithContext(watching)
		stop()
	}
}

// listing lists what is there at this moment, never what a cache had a while ago, and not
// before it is known whether etcd was restored.
func (j *Journal) listing() cache.ListerWatcher {
	objects := j.client.Kube.NetworkingV1().IPAddresses()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = Selector
			if o.Continue == "" {
				if o.ResourceVersion, o.ResourceVersionMatch = "", ""; j.Check(ctx) != nil {
					return nil, errUnchecked
				}
			}
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = Selector
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				if o.ResourceVersion = ""; j.Check(ctx) != nil {
					return nil, errUnchecked
				}
			}
			return objects.Watch(ctx, o)
		},
	}, j.client.Kube)
}

// Lead has a sink keep the objects from now on, if it knows all that this journal has seen:
// take is called with nothing changing meanwhile, and takes over a list of that resource
// version. It reports false where the journal has seen later ones. It then lists anew: etcd may
// have been restored without that it was noticed, and the watch would say nothing for hours.
func (j *Journal) Lead(sink Sink, version string, take func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if newer(j.version, version) {
		if j.relist != nil {
			j.relist()
		}
		return false
	}
	take()
	j.sink, j.objects = sink, nil
	j.changes++
	return true
}

// Add takes in an object that is new, or has changed.
func (j *Journal) Add(obj any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(obj)
	return nil
}

// add is Add with j.mu held. Of an object of a newer version's what was known before holds.
func (j *Journal) add(obj any) {
	o, isObject := obj.(*networkingv1.IPAddress)
	if !isObject {
		return
	}
	j.saw(o.ResourceVersion)
	if err := CheckFormat(o); err != nil {
		j.log.Error("a newer version wrote who holds a VIP; what was known before holds", "vip", o.Name, "err", err)
		return
	}
	c, ours := Read(o)
	switch {
	case !c.Addr.IsValid():
	case j.sink != nil && ours:
		j.sink.Observe(interned(c))
	case j.sink != nil:
		j.sink.ObserveForeign(c.Addr)
	case ours:
		j.objects[c.Addr] = interned(c)
	default:
		delete(j.objects, c.Addr)
	}
}

// saw takes in a resource version that the watch has shown. j.mu is held.
func (j *Journal) saw(version string) {
	j.changes++
	if newer(version, j.version) {
		j.version = version
	}
}

// Update is Add.
func (j *Journal) Update(obj any) error { return j.Add(obj) }

// Delete takes in that an object is gone.
func (j *Journal) Delete(obj any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o, isObject := obj.(*networkingv1.IPAddress); isObject {
		j.saw(o.ResourceVersion)
		if a, err := netip.ParseAddr(o.Name); err == nil {
			j.delete(a, string(o.UID))
		}
	}
	return nil
}

// delete is Delete with j.mu held.
func (j *Journal) delete(a netip.Addr, uid string) {
	if j.sink != nil {
		j.sink.ObserveDeleted(a, uid)
		return
	}
	delete(j.objects, a)
}

// Replace takes in a list of all objects: what it does not have, and was there when it was
// made, is gone.
func (j *Journal) Replace(list []any, version string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	listed := make(map[netip.Addr]bool, len(list))
	for _, obj := range list {
		if o, isObject := obj.(*networkingv1.IPAddress); isObject {
			if a, err := netip.ParseAddr(o.Name); err == nil {
				listed[a] = true
			}
		}
		j.add(obj)
	}
	for _, o := range j.all() {
		if !listed[o.Addr] && !newer(o.Version, version) {
			j.delete(o.Addr, o.UID)
		}
	}
	j.saw(version)
	j.previous = nil
	return nil
}

// all returns the objects that are known. j.mu is held.
func (j *Journal) all() []ipam.Object {
	if j.sink != nil {
		return j.sink.Objects()
	}
	all := make([]ipam.Object, 0, len(j.objects))
	for _, o := range j.objects {
		all = append(all, o)
	}
	return all
}

// Resync does nothing.
func (j *Journal) Resync() error { return nil }

var errUnchecked = errors.New("it is not known yet whether etcd was restored")

// newer reports whether resource version a comes after b (KEP-5504); of two that cannot be
// compared neither does, and any comes after none.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0 || b == "" && a != ""
}
