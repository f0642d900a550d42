package provider

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/cluster"
	"plinth.dev/plinth/provider/directory"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/installation"
	"plinth.dev/plinth/provider/node"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/provider/stock"
	"plinth.dev/plinth/provider/vip"
)

// Name is the name of the cloud provider, as in --cloud-provider.
const Name = inventory.ProviderScheme

// Cloud assembles the controllers, and answers those of k8s.io/cloud-provider from the
// inventory in force.
type Cloud struct {
	options Options
	log     *slog.Logger

	inForce source.InForce
	index   *nodeindex.Index
	nodes   *node.Controller
	vips    *vip.Controller

	// What follows is set by Initialize and SetInformers, in this order, before
	// any controller runs.
	stop       <-chan struct{} // closed when the controllers end
	client     kubernetes.Interface
	events     record.EventBroadcaster
	recorder   record.EventRecorder
	reports    *event.Reports
	reconciler *source.Reconciler
	informers  informers.SharedInformerFactory
	stock      *stock.Controllers

	cluster atomic.Pointer[cluster.Reader] // set by SetInformers, while the reconciler runs already

	atStake stake // used by the reconciler's goroutine alone
}

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
)

// New returns a Cloud without an inventory: it answers every question with an
// error until one is in force.
func New(options Options) *Cloud {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.Lease == "" {
		options.Lease = source.DefaultLease
	}
	if options.Restart == nil {
		options.Restart = func() { os.Exit(1) }
	}
	cloud := &Cloud{options: options, log: options.Log, index: nodeindex.New()}
	cloud.nodes = node.New(node.Options{Namespace: options.Namespace, InForce: &cloud.inForce, Index: cloud.index, Log: options.Log})
	cloud.inForce.Follow(cloud.index.Reindex) // before any controller that runs, and after node.New
	cloud.vips = vip.New(vip.Options{
		Namespace: options.Namespace, ClassOnly: options.ClassOnly, StateDir: options.StateDir, InForce: &cloud.inForce, Log: options.Log, Restart: options.Restart,
	})
	return cloud
}

// ProviderName returns "plinth".
func (c *Cloud) ProviderName() string { return Name }

// HasClusterID returns true: the name of the inventory tells clusters apart.
func (c *Cloud) HasClusterID() bool { return true }

// Initialize makes the clients and begins to follow the inventory. It is called
// on the leader only, and blocks while an installation in another namespace may act: the lease is
// renewed meanwhile, and no controller has been started.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	ctx := wait.ContextForChannel(stop)
	c.client = clients.ClientOrDie("plinth")
	c.startEvents(ctx, clients.ClientOrDie("plinth-events"))
	c.guard(ctx)
	c.reconciler = c.newReconciler()
	legacyregistry.RawMustRegister(c.reconciler.Metrics)
	c.stop = stop
	go c.reconcileInventory(ctx)
}

// SetInformers sets the informers that all controllers share.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.informers = factory
	c.readCluster()
	nodes := factory.Core().V1().Nodes()
	if err := trim(factory); err != nil {
		c.log.Error("cannot trim objects in the cache", "err", err)
	}
	if err := c.index.Use(nodes.Informer()); err != nil {
		c.log.Error("cannot index Nodes", "err", err)
	}
	c.nodes.Use(node.Cluster{Client: c.client, Nodes: nodes, Recorder: c.recorder, Reports: c.reports})
	c.stock = &stock.Controllers{
		Cloud: c, InForce: &c.inForce, Nodes: nodes, Initialize: c.nodes.Initialize, Current: c.reconciler.Current, Log: c.log,
	}
	c.vips.Use(vip.Cluster{
		Client: c.client, Informers: factory, Recorder: c.recorder, Reports: c.reports, Stop: c.stop, Unannounced: c.unannounced,
	})
	// It is none of --controllers: a directory that nobody keeps would be left to grow old.
	nodeDirectory := &directory.Controller{Client: c.client, Namespace: c.options.Namespace, Log: c.log}
	if err := nodeDirectory.Start(wait.ContextForChannel(c.stop), nodes); err != nil {
		c.log.Error("cannot keep the directory of Nodes", "err", err)
	}
}

// trim sets the transforms by which informers keep only the fields that are read.
func trim(f informers.SharedInformerFactory) error {
	core := f.Core().V1()
	return errors.Join(
		core.Nodes().Informer().SetTransform(node.Trim),
		core.Services().Informer().SetTransform(vip.TrimService),
		core.Namespaces().Informer().SetTransform(vip.TrimNamespace),
	)
}

// guard returns when no other installation may act, or when this process leads no more: what is
// started then ends at once.
func (c *Cloud) guard(ctx context.Context) {
	guard := installation.Guard{Client: c.client, Namespace: c.options.Namespace, Lease: c.options.Lease, LeaseIn: c.options.LeaseIn, Program: source.Program(), Log: c.log, Events: c.recorder}
	if err := guard.Wait(ctx); err != nil {
		c.log.Info("stopped waiting for an installation in another namespace", "err", err)
	}
}
