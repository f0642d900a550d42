package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// seededWithin is how long a Service that is to be deleted waits while the VIPs that
// are held are read.
const seededWithin = time.Minute

// LoadBalancer answers for Services of type LoadBalancer.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancer, !c.options.ClassOnly
}

// balancer gives Services their VIPs. A VIP is taken by creating the IPAddress
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
// The stock service controller uses no others: it puts its finalizer on a Service by
// way of services/status too.
type balancer struct {
	cloud    *Cloud
	log      *slog.Logger
	client   kubernetes.Interface
	services corelisters.ServiceLister
	now      func() time.Time
	queue    *queue

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

// newBalancer returns a balancer that answers nothing before run.
func newBalancer(c *Cloud) *balancer {
	b := &balancer{
		cloud:        c,
		log:          c.log,
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
	b.queue = newQueue("plinth_loadbalancer", c.log, b.sync)
	return b
}

// GetLoadBalancer returns the VIPs that a Service holds. It exists while there is
// one, so that it will be given back.
func (b *balancer) GetLoadBalancer(ctx context.Context, _ string, svc *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	if err := until(ctx, b.seeded); err != nil {
		return nil, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.ledger.Holds(keyOf(svc))
	return &v1.LoadBalancerStatus{Ingress: ingressOf(held)}, len(held) > 0, nil
}

// GetLoadBalancerName returns the Service's own name.
func (b *balancer) GetLoadBalancerName(_ context.Context, _ string, svc *v1.Service) string {
	return keyOf(svc).String()
}

// EnsureLoadBalancer gives a Service its VIPs. Where the stock controller has nothing
// to write, it hears [cloudprovider.ImplementedElsewhere], which ends the matter: when
// the status says already what it should, so that a restart is not an Event on every
// Service; and when the Service has to wait, for an address or for the inventory, or
// another leader is in the way.
// Plinth's own controller then tells it why, and serves it the moment that it can,
// where the stock one would poll. Any other failure the stock controller hears of, too, and
// makes an Event of it; by the time that it tries again the Service is served already if
// it can be.
func (b *balancer) EnsureLoadBalancer(ctx context.Context, _ string, svc *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	if !closed(b.ready) {
		b.queue.Add(keyOf(svc).String())
		return nil, cloudprovider.ImplementedElsewhere
	}
	d, err := b.settle(ctx, svc, false)
	if err != nil {
		b.queue.AddRateLimited(keyOf(svc).String()) // much sooner than the stock controller would try again
	}
	switch {
	case errors.Is(err, errContended), apierrors.IsConflict(err):
		return nil, cloudprovider.ImplementedElsewhere
	case err != nil:
		return nil, err
	}
	b.lookAfterRests(keyOf(svc), d)
	ingress := ingressOf(addrs(d.VIPs))
	if d.Refused || sameIngress(svc, ingress) {
		if statusPatch(svc, d, b.now()) != nil {
			b.queue.Add(keyOf(svc).String())
		}
		return nil, cloudprovider.ImplementedElsewhere
	}
	return &v1.LoadBalancerStatus{Ingress: ingress}, nil
}

// UpdateLoadBalancer has nothing to do when Nodes come and go: each announces for
// itself. Any other answer is an Event on every Service for every Node.
func (b *balancer) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	return cloudprovider.ImplementedElsewhere
}

// EnsureLoadBalancerDeleted gives back all that a Service holds. It asks nobody but
// the API server, so that no Service hangs in its deletion. A Service that has come to
// be of Plinth's class keeps what it holds: its own controller answers for it now.
func (b *balancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *v1.Service) error {
	if err := until(ctx, b.seeded); err != nil {
		return err
	}
	k := keyOf(svc)
	defer b.lookAgain(k)
	if now, err := b.services.Services(k.Namespace).Get(k.Name); err == nil && isLiveOfOurClass(now) {
		return nil
	}
	return b.relinquishHeld(ctx, k, svc.UID)
}

// isLiveOfOurClass reports whether a Service is Plinth's own controller's, and stays.
func isLiveOfOurClass(svc *v1.Service) bool { return ofOurClass(svc) && svc.DeletionTimestamp == nil }

// lookAgain has a Service looked at that is to be served, though what it held was given
// back a moment ago: it was no load balancer for a while, and is one again.
func (b *balancer) lookAgain(k lb.ServiceKey) {
	if svc, err := b.services.Services(k.Namespace).Get(k.Name); err == nil && b.isOurs(svc) {
		b.queue.Add(k.String())
	}
}

// errNotReady is what comes of a question before the VIPs in use and the pools are known.
var errNotReady = errors.New("the VIPs in use are not known yet, or no inventory is in force")

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// until waits until c is closed, but not for ever.
func until(ctx context.Context, c <-chan struct{}) error {
	if closed(c) {
		return nil
	}
	limit := time.NewTimer(seededWithin)
	defer limit.Stop()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotReady, ctx.Err())
	case <-limit.C:
		return errNotReady
	}
}
