package claim

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"unique"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb/ipam"
)

// Mirror follows the IPAddress objects for the whole life of a process, and is the one copy of
// them in it: its own while the process waits to lead, that of a [Sink] while it leads.
type Mirror struct {
	log    *slog.Logger
	client Client
	relist context.CancelFunc // of the list and watch that run

	mu      sync.Mutex
	objects map[netip.Addr]ipam.Object // nil: the sink has them
	sink    Sink                       // nil: this process does not lead
	version string                     // the newest resource version that the watch has shown
	changes int
}

var _ cache.ReflectorStore = (*Mirror)(nil)

// Sink keeps the objects while this process leads. Its methods are called by one goroutine at
// a time, but for Objects.
type Sink interface {
	Observe(ipam.Object)                              // a list or a watch shows it
	ObserveForeign(netip.Addr)                        // it is another program's
	ObserveDeleted(a netip.Addr, uid, version string) // it is gone at that resource version
	ObserveList(version string)                       // all are listed anew, at that resource version: the calls that follow say what changed
	Objects() []ipam.Object                           // all that it has
}

// NewMirror returns a Mirror that knows of no object.
func NewMirror(log *slog.Logger, client Client) *Mirror {
	return &Mirror{log: log, client: client, relist: func() {}, objects: map[netip.Addr]ipam.Object{}}
}

// Run lists and watches the objects until ctx ends. check is called before each list, which
// waits until it succeeds: who is to learn of a restore of etcd learns of it before a list of
// the restored cluster shows what the backup does not have as gone.
func (m *Mirror) Run(ctx context.Context, check func(context.Context) error) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		m.mu.Lock()
		m.relist, m.version = stop, ""
		m.mu.Unlock()
		cache.NewReflector(m.listing(check), &networkingv1.IPAddress{}, m, 0).RunWithContext(watching)
		stop()
	}
}

// listing lists the objects of this moment, never those that a cache had a while ago.
func (m *Mirror) listing(check func(context.Context) error) cache.ListerWatcher {
	objects := m.client.Kube.NetworkingV1().IPAddresses()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = Selector
			if options.Continue == "" {
				options.ResourceVersion, options.ResourceVersionMatch = "", ""
				if err := check(ctx); err != nil {
					return nil, err
				}
			}
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = Selector
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				options.ResourceVersion = ""
				if err := check(ctx); err != nil {
					return nil, err
				}
			}
			return objects.Watch(ctx, options)
		},
	}, m.client.Kube)
}

// Relist ends the watch, and lists anew. After a restore of etcd a watch may wait in silence for
// a version that is yet to come.
func (m *Mirror) Relist() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relist()
}

// Lead has a sink keep the objects from now on, if it knows all that this mirror has seen:
// take is called with nothing changing meanwhile, and takes over a list of that resource
// version. It reports false where the mirror has seen later ones. It then lists anew: etcd may
// have been restored without that it was noticed, and the watch would say nothing for hours.
func (m *Mirror) Lead(sink Sink, version string, take func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if newer(m.version, version) {
		m.relist()
		return false
	}
	take()
	m.sink, m.objects = sink, nil
	m.changes++
	return true
}

// Objects returns all objects that are known, in no order.
func (m *Mirror) Objects() []ipam.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all()
}

// Changes returns the number of changes to the objects; 0: they were not listed yet.
func (m *Mirror) Changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// Add adds an object that is new, or has changed.
func (m *Mirror) Add(obj any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(obj)
	return nil
}

// add is Add with m.mu held. Of an object of a newer version's what was known before holds.
func (m *Mirror) add(obj any) {
	object, isObject := obj.(*networkingv1.IPAddress)
	if !isObject {
		return
	}
	m.saw(object.ResourceVersion)
	if err := CheckFormat(object); err != nil {
		m.log.Error("cannot read a claim that a newer version wrote; what was known before holds", "vip", object.Name, "err", err)
		return
	}
	claim, ours := Read(object)
	switch {
	case !claim.Addr.IsValid():
	case m.sink != nil && ours:
		m.sink.Observe(interned(claim))
	case m.sink != nil:
		m.sink.ObserveForeign(claim.Addr)
	case ours:
		m.objects[claim.Addr] = interned(claim)
	default:
		delete(m.objects, claim.Addr)
	}
}

// saw records a resource version that the watch has shown. m.mu is held.
func (m *Mirror) saw(version string) {
	m.changes++
	if newer(version, m.version) {
		m.version = version
	}
}

// Update is Add.
func (m *Mirror) Update(obj any) error { return m.Add(obj) }

// Delete removes an object that is gone.
func (m *Mirror) Delete(obj any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, isObject := obj.(*networkingv1.IPAddress); isObject {
		m.saw(o.ResourceVersion)
		if a, err := netip.ParseAddr(o.Name); err == nil {
			m.delete(a, string(o.UID), o.ResourceVersion)
		}
	}
	return nil
}

// delete is Delete with m.mu held.
func (m *Mirror) delete(a netip.Addr, uid, version string) {
	if m.sink != nil {
		m.sink.ObserveDeleted(a, uid, version)
		return
	}
	delete(m.objects, a)
}

// Replace takes in a list of all objects: what it does not have is gone. A sink may know of
// objects that were made later, by its own writes. While this process waits to lead all that is
// known is of lists and watches, and a list that is older than that is of a restored cluster.
func (m *Mirror) Replace(list []any, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sink != nil {
		m.sink.ObserveList(version)
	}
	listed := make(map[netip.Addr]bool, len(list))
	for _, obj := range list {
		if o, isObject := obj.(*networkingv1.IPAddress); isObject {
			if a, err := netip.ParseAddr(o.Name); err == nil {
				listed[a] = true
			}
		}
		m.add(obj)
	}
	for _, o := range m.all() {
		if !listed[o.Addr] && (m.sink == nil || !newer(o.Version, version)) {
			m.delete(o.Addr, o.UID, version)
		}
	}
	m.saw(version)
	return nil
}

// all returns the objects that are known. m.mu is held.
func (m *Mirror) all() []ipam.Object {
	if m.sink != nil {
		return m.sink.Objects()
	}
	all := make([]ipam.Object, 0, len(m.objects))
	for _, o := range m.objects {
		all = append(all, o)
	}
	return all
}

// Resync does nothing.
func (m *Mirror) Resync() error { return nil }

// newer reports whether resource version a comes after b (KEP-5504); of two that cannot be
// compared neither does, and any comes after none.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0 || b == "" && a != ""
}

// interned returns an object whose strings that many have are there once.
func interned(object ipam.Object) ipam.Object {
	intern := func(s string) string { return unique.Make(s).Value() }
	object.Pool, object.Parent.Namespace, object.Homes, object.Owner = intern(object.Pool), intern(object.Parent.Namespace), intern(object.Homes), intern(object.Owner)
	for i := range object.Holders {
		object.Holders[i].Namespace = intern(object.Holders[i].Namespace)
	}
	return object
}
