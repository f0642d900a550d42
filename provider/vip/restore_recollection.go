package vip

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"
	"unique"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

const (
	// recalledFor is how long what was known before a restore counts: as long as an
	// address rests.
	recalledFor = ipam.RestTime
	// silentEvery is how often the cluster is asked for its resource version while it
	// does not answer, and answerWithin how long it has for an answer.
	silentEvery  = time.Second
	answerWithin = 5 * time.Second
	// loadedWithin is how long a leader waits for the file of what was known before.
	loadedWithin = 5 * time.Second
)

// recollection is what this process knows of the claims, whether it leads or waits to lead.
// While etcd is restored from a backup the leader loses its lease and ends, and with it
// all that the backup does not have. Whoever leads next remembers it here: it waited
// meanwhile, or has the file that its predecessor left.
//
// Nothing of it counts unless resource versions went back. A version is only compared
// with one that was known before the cluster was asked: what it answers is no older then.
type recollection struct {
	log    *slog.Logger
	file   string // empty: none
	now    func() time.Time
	loaded chan struct{} // closed when the file was read
	anew   chan struct{} // has a word when all is to be listed anew

	mu      sync.Mutex
	version string // the newest resource version that is known
	claims  map[netip.Addr]remembered
	before  map[netip.Addr]remembered // known before resource versions went back
	backAt  time.Time                 // when they did
	changes int                       // of claims and before
	silent  bool                      // the cluster did not answer when it was asked last
	asked   string                    // the version that was known when the list was asked for
}

// remembered is what is remembered of a claim.
type remembered struct {
	Pool    string
	Holders []lb.ServiceKey
	UID     types.UID // of the first holder; empty: not known
}

var (
	_ cache.ReflectorStore         = (*recollection)(nil)
	_ cache.ReflectorBookmarkStore = (*recollection)(nil)
)

func newRecollection(log *slog.Logger, file string) *recollection {
	return &recollection{
		log: log, file: file, now: time.Now,
		loaded: make(chan struct{}), anew: make(chan struct{}, 1),
		claims: map[netip.Addr]remembered{},
	}
}

// Remember has this process remember who holds which VIP until ctx ends, whether it
// leads or not: should it lead after etcd was restored from a backup, it knows what the
// backup does not. It is to be called once, before the process can lead.
func (b *Controller) Remember(ctx context.Context, client kubernetes.Interface) {
	b.recollection = newRecollection(b.log, b.options.recollectionFile())
	go b.recollection.follow(ctx, client)
}

// follow remembers until ctx ends.
func (r *recollection) follow(ctx context.Context, client kubernetes.Interface) {
	r.load()
	close(r.loaded)
	if r.file != "" {
		go r.keep(ctx)
	}
	for ctx.Err() == nil {
		r.watch(ctx, client)
	}
}

// watch follows the objects until ctx ends or all is to be listed anew: after a restore a
// watch waits in silence for a version that is yet to come.
func (r *recollection) watch(ctx context.Context, client kubernetes.Interface) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	reflector := cache.NewReflector(r.listing(client), &networkingv1.IPAddress{}, r, 0)
	running.Go(func() { reflector.RunWithContext(ctx) })
	for {
		pause := time.NewTimer(r.ask(ctx, client))
		select {
		case <-ctx.Done():
		case <-r.anew:
			stop()
		case <-pause.C:
		}
		pause.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// listing lists what is there at this moment, never what a cache had a while ago: its
// version would seem to have gone back.
func (r *recollection) listing(client kubernetes.Interface) cache.ListerWatcher {
	objects := client.NetworkingV1().IPAddresses()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = claimSelector
			if o.Continue == "" {
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
				r.asks()
			}
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = claimSelector
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				o.ResourceVersion = ""
				r.asks()
			}
			return objects.Watch(ctx, o)
		},
	}, client)
}

func (r *recollection) asks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = r.version
}

// ask asks the cluster for its resource version, and returns when to ask again.
func (r *recollection) ask(ctx context.Context, client kubernetes.Interface) (pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	known := r.known()
	list, err := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: claimSelector, Limit: 1})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent = err != nil; r.silent {
		return silentEvery
	}
	r.compare(known, list.ResourceVersion)
	r.version = later(r.version, list.ResourceVersion)
	return askEvery
}

// known is the newest resource version that is known.
func (r *recollection) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// compare sets aside all that is known if the version that the cluster has now is older
// than one that was known before, unless that was noticed already. r.mu is held.
func (r *recollection) compare(known, now string) {
	if !newer(known, now) || newer(known, r.version) {
		return
	}
	r.log.Error("resource versions went back: etcd was restored from a backup", "before", known, "now", now)
	if r.before == nil || r.now().Sub(r.backAt) > recalledFor {
		r.before = map[netip.Addr]remembered{}
	}
	maps.Copy(r.before, r.claims)
	r.claims, r.version, r.backAt = map[netip.Addr]remembered{}, now, r.now()
	r.changes++
	select {
	case r.anew <- struct{}{}:
	default:
	}
}

// recall returns what was known before etcd was restored, and whether it was, a moment
// ago. The cluster is at the version now, and known was known before it was asked.
func (r *recollection) recall(known, now string) (before map[netip.Addr]remembered, restored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compare(known, now)
	if r.before == nil || r.now().Sub(r.backAt) > recalledFor {
		return nil, false
	}
	return maps.Clone(r.before), true
}

// forget forgets what was known before: it is saved.
func (r *recollection) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = nil
	r.changes++
}

// Add remembers an object.
func (r *recollection) Add(obj any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(obj)
	return nil
}

// add is Add with r.mu held.
func (r *recollection) add(obj any) {
	a, o, ok := addressOf(obj)
	if !ok {
		return
	}
	r.version = later(r.version, o.ResourceVersion)
	r.changes++
	if claimFormat(o) != nil {
		return // what was known of it holds
	}
	if c, ours := readClaim(o); ours {
		r.claims[a] = c.remembered()
	} else {
		delete(r.claims, a)
	}
}

// Update remembers an object as it is now.
func (r *recollection) Update(obj any) error { return r.Add(obj) }

// Delete forgets an object.
func (r *recollection) Delete(obj any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, o, ok := addressOf(obj); ok {
		r.version = later(r.version, o.ResourceVersion)
		r.changes++
		delete(r.claims, a)
	}
	return nil
}

// Replace remembers the objects of a list and no others.
func (r *recollection) Replace(list []any, version string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compare(r.asked, version)
	r.claims = make(map[netip.Addr]remembered, len(list))
	for _, obj := range list {
		r.add(obj)
	}
	r.version = later(r.version, version)
	r.changes++
	return nil
}

// Resync does nothing.
func (r *recollection) Resync() error { return nil }

// Bookmark takes in how far the watch has come.
func (r *recollection) Bookmark(version string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = later(r.version, version)
	return nil
}

// remembered is what of a claim is worth remembering. The names that many have are
// there once.
func (c claim) remembered() remembered {
	r := remembered{Pool: unique.Make(c.pool).Value()}
	for _, k := range c.holders {
		k.Namespace = unique.Make(k.Namespace).Value()
		if k == c.parent && c.serviceUID != parentLeft {
			r.Holders, r.UID = append([]lb.ServiceKey{k}, r.Holders...), c.serviceUID
			continue
		}
		r.Holders = append(r.Holders, k)
	}
	return r
}
