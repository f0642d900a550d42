package vip

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/queue"
)

// Controller gives Services their VIPs, and is the only writer of their statuses. A VIP is
// claimed by creating the IPAddress object of its name; the state follows what the API server
// says about these objects, and decides what to try next.
//
// It uses these verbs of the API:
//
//	networking.k8s.io ipaddresses       get list watch create patch delete
//	networking.k8s.io servicecidrs      list watch
//	                  services          get list watch
//	                  services/status   patch
//	                  events            create patch
//	                  configmaps        get create patch, of the name plinth-released in Plinth's namespace
//
// The finalizer of a Service is put on and taken off by way of services/status, too.
type Controller struct {
	*statuses
	linked   *stockBalancer
	released *releasedKeeper

	loaded chan struct{} // closed when all claims are known: addresses may be released
	ready  chan struct{} // closed when the pools and the statuses are known, too: addresses may be given

	retained map[retainedVIP]lb.Reason // held, and would not be given now; written with the store's lock held
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

// journalFile is where it is written down who holds which VIP; empty: nowhere.
func (o Options) journalFile() string {
	if o.StateDir == "" {
		return ""
	}
	return filepath.Join(o.StateDir, "claims.json")
}

// Cluster is what the API server is reached by.
type Cluster struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Reports   *event.Reports
	Stop      <-chan struct{} // closed when the controllers end
}

// environment is what all parts use, and say together: which Services are Plinth's to serve.
type environment struct {
	options  Options
	cluster  Cluster
	log      *slog.Logger
	now      func() time.Time
	services corelisters.ServiceLister
	queue    *queue.Queue
	byStock  bool // the stock service controller runs in its place, and writes the statuses; see stockBalancer
}

// New returns a Controller that does nothing yet. Use comes before Start.
func New(o Options) *Controller {
	e := &environment{options: o, log: o.Log, now: time.Now}
	held := &store{environment: e, state: ipam.NewState(), quarantineChanged: make(chan struct{}, 1), followed: map[netip.Addr]bool{}}
	b := &Controller{
		statuses: &statuses{store: held, reports: newReports(func() time.Time { return e.now() })},
		loaded:   make(chan struct{}),
		ready:    make(chan struct{}),
	}
	b.linked = &stockBalancer{balancer: b}
	b.released = &releasedKeeper{balancer: b}
	e.queue = queue.New("plinth_loadbalancer", o.Log, b.reconcile)
	return b
}

// Use takes what the API server is reached by, before anything is started. Where the stock
// service controller asks first, it starts long after the informers, so it asks for its own here.
func (b *Controller) Use(c Cluster) {
	b.cluster, b.claims = c, claim.Client{Kube: c.Client, Namespace: b.options.Namespace}
	c.Informers.Core().V1().Services().Informer()
	c.Informers.Networking().V1().ServiceCIDRs().Informer()
}

// Stock answers the stock service controller, in a program that runs that one in place of
// this.
func (b *Controller) Stock() cloudprovider.LoadBalancer { return b.linked }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
