package vip

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"

	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/queue"
)

// New returns a Controller that does nothing yet. Use comes before Start.
func New(options Options) *Controller {
	env := &environment{options: options, log: options.Log, now: time.Now}
	held := &store{environment: env, state: ipam.NewState(), quarantineChanged: make(chan struct{}, 1), followed: map[netip.Addr]bool{}, homes: newHomes()}
	made := &Controller{
		statuses: &statuses{
			store: held, reports: newReports(func() time.Time { return env.now() }),
			announcementsChanged: make(chan struct{}, 1), announcementsDisputed: make(chan struct{}, 1), reviewEvery: reviewEvery,
		},
		loaded: make(chan struct{}),
		ready:  make(chan struct{}),
	}
	made.linked = &stockBalancer{balancer: made}
	made.released = &releasedKeeper{balancer: made}
	made.retained = &retainedVIPs{environment: env}
	env.queue = queue.New("plinth_loadbalancer", options.Log, made.reconcile)
	return made
}

// Use sets the connection to the API server, before anything is started. Where the stock
// service controller asks first, it starts long after the informers, so it asks for its own here.
func (b *Controller) Use(c Cluster) {
	b.cluster, b.claims = c, claim.Client{Kube: c.Client, Namespace: b.options.Namespace}
	c.Informers.Core().V1().Services().Informer()
	c.Informers.Core().V1().Nodes().Informer()
	c.Informers.Networking().V1().ServiceCIDRs().Informer()
	c.Informers.Core().V1().Namespaces().Informer()
}

// Busy reports whether Services wait for their turn.
func (b *Controller) Busy() bool { return b.queue.Len() > 0 }

// Stock answers the stock service controller, in a program that runs that one in place of
// this.
func (b *Controller) Stock() cloudprovider.LoadBalancer { return b.linked }

// Start starts the controller, which runs until ctx ends. It serves Services of Plinth's
// class, and those without a class.
func (b *Controller) Start(ctx context.Context, workers int) error {
	b.ctx, b.stop = context.WithCancel(ctx)
	synced, err := b.follow()
	if err != nil {
		return err
	}
	legacyregistry.RawMustRegister(vipCollector{b})
	go b.run(ctx, workers, synced...)
	return nil
}

// follow follows Services, and all that has addresses which no Service may be given. It returns what says that all of these are
// known: nothing is given, and nothing released, before.
func (b *Controller) follow() (synced []cache.InformerSynced, err error) {
	core := b.cluster.Informers.Core().V1()
	b.services = core.Services().Lister()
	namespaces, err := core.Namespaces().Informer().AddEventHandler(b.namespacesChange())
	if err != nil {
		return nil, err
	}
	b.namespacesKnown = namespaces.HasSynced
	takes := b.poolsChange(b.ctx)
	for _, follow := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Services().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: b.serviceCame, UpdateFunc: b.serviceChanged, DeleteFunc: b.serviceGone}},
		{core.Services().Informer(), takes}, {core.Nodes().Informer(), takes}, {b.cluster.Informers.Networking().V1().ServiceCIDRs().Informer(), takes},
	} {
		registration, err := follow.informer.AddEventHandler(follow.handler)
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

func (b *Controller) run(ctx context.Context, workers int, synced ...cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced...) || !b.beginReleasing(ctx) {
		return
	}
	go b.released.run(b.ctx)
	go b.queue.Run(b.ctx, workers)
	if !b.beginGiving(b.ctx) {
		return
	}
	go b.options.InForce.OnChange(b.ctx, func() {
		b.retryUntilDone(b.ctx, b.setPools)
		b.AnnouncementsChanged()
	})
	go b.followAnnouncements(b.ctx)
	go b.followHomes(b.ctx)
	b.audit(b.ctx)
}
