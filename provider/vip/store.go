package vip

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/queue"
	"plinth.dev/plinth/wake"
)

// Options are the options of the controller that gives Services their VIPs.
type Options struct {
	Namespace string // of Plinth's ConfigMaps
	ClassOnly bool   // serve Services of Plinth's class and none without a class
	StateDir  string // where it is written down who holds which VIP; empty: nowhere
	InForce   *source.InForce
	Log       *slog.Logger
	Restart   func() // ends this process, so that another starts with nothing remembered
}

// journalFile is the file of the journal, which records the holders of VIPs; empty: there is none.
func (o Options) journalFile() string {
	if o.StateDir == "" {
		return ""
	}
	return filepath.Join(o.StateDir, "claims.json")
}

// Cluster is the connection to the API server: its client, its informers and its sinks of Events and reports.
type Cluster struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Reports   *event.Reports
	Stop      <-chan struct{} // closed when the controllers end

	// Unannounced is asked every few seconds where something changes; nil: nobody is told.
	Unannounced Unannounced
}

// environment is the part of the controller that all others share. It decides which Services are Plinth's to serve.
type environment struct {
	options  Options
	cluster  Cluster
	log      *slog.Logger
	now      func() time.Time
	services corelisters.ServiceLister
	queue    *queue.Queue
	byStock  bool // the stock service controller runs in its place, and writes the statuses; see stockBalancer
}

// store is the state of VIPs under its lock, and the API server's word of it.
type store struct {
	*environment
	claims    claim.Client
	mirror    *claim.Mirror
	journal   *claim.Journal
	ofAddress keyedLock[string] // one goroutine at a time writes the object of an address; locked last, and one of them

	quarantineChanged chan struct{} // what is in quarantine has changed

	ctx       context.Context // of serving Services; nil: that has not begun
	stop      func()          // ends it
	following sync.Mutex
	followed  map[netip.Addr]bool // addresses of other programs that are waited for
	homes     homes

	mu    sync.Mutex
	state *ipam.State
}

// apply changes the state by verbs, all at once, and carries out the effects.
func (b *store) apply(verbs ...func(*ipam.State) ipam.Effects) {
	var effects ipam.Effects
	b.mu.Lock()
	for _, verb := range verbs {
		effects = effects.And(verb(b.state))
	}
	b.mu.Unlock()
	b.carryOut(effects)
}

// note changes the state by something that has no effects.
func (b *store) note(verb func(*ipam.State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	verb(b.state)
}

// carryOut carries out the effects of a change of the state.
func (b *store) carryOut(effects ipam.Effects) {
	for _, s := range effects.Stale {
		b.log.Warn("found an address in a status that its Service does not hold; nobody else gets it before that is cleared", "service", s.Service, "vip", s.Addr)
	}
	if effects.Quarantine {
		b.writeReleasedSoon()
	}
	for _, r := range effects.Reconcile {
		if r.After > 0 {
			b.queue.AddAfter(r.Service.String(), r.After)
		} else {
			b.queue.Add(r.Service.String())
		}
	}
}

// ask returns the answer of the state to a question.
func ask[T any](b *store, question func(*ipam.State) T) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return question(b.state)
}

// told returns the decision that a Service was told last; false: none yet.
func (b *store) told(svc *v1.Service) (ipam.Decision, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.Told(keyOf(svc), string(svc.UID))
}

// writeReleasedSoon schedules a write of the addresses in quarantine.
func (b *store) writeReleasedSoon() { wake.Up(b.quarantineChanged) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func keyOf(svc *v1.Service) lb.ServiceKey {
	return lb.ServiceKey{Namespace: svc.Namespace, Name: svc.Name}
}

func without[T comparable](all []T, some ...T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(some, x) })
}

// service returns a Service from the cache; nil: it has none.
func (b *environment) service(k lb.ServiceKey) *v1.Service {
	svc, _ := b.services.Services(k.Namespace).Get(k.Name)
	return svc
}
