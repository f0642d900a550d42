package vip

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/queue"
)

// Controller gives Services their VIPs, and is the only writer of their statuses. A VIP is taken by creating the IPAddress
// object of its name; the ledger follows what the API server says about these
// objects, and decides what to try next.
//
// It uses these verbs of the API:
//
//	networking.k8s.io ipaddresses       get list watch create patch delete
//	networking.k8s.io servicecidrs      list
//	                  services          get list watch
//	                  services/status   patch
//	                  events            create patch
//	                  configmaps        get create patch, of the name plinth-released in Plinth's namespace
//
// The finalizer of a Service is put on and taken off by way of services/status, too.
type Controller struct {
	options      Options
	cluster      Cluster
	log          *slog.Logger
	services     corelisters.ServiceLister
	now          func() time.Time
	queue        *queue.Queue
	linked       *stockBalancer
	recollection *recollection // nil: without Remember
	byStock      bool          // the stock service controller runs in its place, and writes the statuses; see stockBalancer

	seeded chan struct{} // closed when the ledger knows all claims: addresses may be given back
	ready  chan struct{} // closed when it has pools, too, and knows the statuses: addresses may be given

	rewatched chan struct{} // has a word when a watch began anew
	wentBack  chan struct{} // has a word when a list was older than what was seen before
	ending    sync.Once     // etcd was restored, and the process ends

	busy    [256]sync.Mutex // by hash of the Service: one is settled by one goroutine at a time
	writing [256]sync.Mutex // by hash of the address: its object is written by one at a time; locked last, and one of them

	mu           sync.Mutex
	ledger       *ipam.Ledger
	claims       map[netip.Addr]claim           // as the API server has them
	foreign      map[netip.Addr]bool            // held by objects that are not ours
	stale        map[netip.Addr][]lb.ServiceKey // not held by these, whose statuses show it: nobody else is given it meanwhile
	standings    map[lb.ServiceKey]*standing
	waiting      map[lb.ServiceKey]waiter
	untold       map[lb.ServiceKey][]netip.Addr // acquired by a Service that was not told of them
	released     map[netip.Addr]lb.ServiceKey   // whose objects are still there; by whom
	restsChanged chan struct{}                  // has a word when what rests has changed
	kept         map[keptVIP]lb.Reason          // held, and would not be given now
}

// Options say how Services are served.
type Options struct {
	Namespace string // of Plinth's ConfigMaps
	ClassOnly bool   // serve Services of Plinth's class and none without a class
	StateDir  string // where it is written down who holds which VIP; empty: nowhere
	InForce   *source.InForce
	Log       *slog.Logger
	Restart   func() // ends this process, so that another starts with nothing remembered
}

// Cluster is what the API server is reached by.
type Cluster struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Reports   *event.Reports
	Stop      <-chan struct{} // closed when the controllers end
}

// New returns a Controller that does nothing yet. Use comes before Start.
func New(o Options) *Controller {
	b := &Controller{
		options:      o,
		log:          o.Log,
		now:          time.Now,
		seeded:       make(chan struct{}),
		ready:        make(chan struct{}),
		ledger:       ipam.NewLedger(),
		claims:       map[netip.Addr]claim{},
		foreign:      map[netip.Addr]bool{},
		stale:        map[netip.Addr][]lb.ServiceKey{},
		standings:    map[lb.ServiceKey]*standing{},
		waiting:      map[lb.ServiceKey]waiter{},
		untold:       map[lb.ServiceKey][]netip.Addr{},
		released:     map[netip.Addr]lb.ServiceKey{},
		restsChanged: make(chan struct{}, 1),
		rewatched:    make(chan struct{}, 1),
		wentBack:     make(chan struct{}, 1),
	}
	b.linked = &stockBalancer{balancer: b}
	b.queue = queue.New("plinth_loadbalancer", o.Log, b.sync)
	return b
}

// Use takes what the API server is reached by, before anything is started.
func (b *Controller) Use(c Cluster) { b.cluster = c }

// Stock answers the stock service controller, in a program that runs that one in place of
// this.
func (b *Controller) Stock() cloudprovider.LoadBalancer { return b.linked }

// lookAgain has a Service looked at that is to be served, though what it held was given
// back a moment ago: it was no load balancer for a while, and is one again.
func (b *Controller) lookAgain(k lb.ServiceKey) {
	if svc, err := b.services.Services(k.Namespace).Get(k.Name); err == nil && b.isOurs(svc) {
		b.queue.Add(k.String())
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
