package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/ipam"
)

// stockBalancer answers the stock service controller. That one writes the status, and the
// finalizer, and so says when an address may be given back: it takes the finalizer off a
// Service and clears the status after that, while every kube-proxy serves what the status
// shows. What a Service holds it keeps, therefore, until it is seen without it, or gone.
type stockBalancer struct {
	balancer *Controller
	begun    sync.Once
	failed   error // to start
}

// stockWorkers is how many Services are looked at at once, besides those that the stock
// controller asks about.
const stockWorkers = 4

// start starts the controller, where the stock service controller is in its place.
func (s *stockBalancer) start() error {
	s.begun.Do(func() {
		s.balancer.byStock = true
		s.failed = s.balancer.Start(wait.ContextForChannel(s.balancer.cluster.Stop), stockWorkers)
	})
	return s.failed
}

// GetLoadBalancer returns the VIPs that a Service holds. It exists while there is one, so
// that it will be given back.
func (s *stockBalancer) GetLoadBalancer(ctx context.Context, _ string, svc *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	if err := errors.Join(s.start(), until(ctx, s.balancer.loaded)); err != nil {
		return nil, false, err
	}
	held := ask(s.balancer.store, func(s *ipam.State) []netip.Addr { return slices.Clone(s.Holds(keyOf(svc))) })
	return &v1.LoadBalancerStatus{Ingress: ingressOf(held)}, len(held) > 0, nil
}

// GetLoadBalancerName returns the Service's own name.
func (s *stockBalancer) GetLoadBalancerName(_ context.Context, _ string, svc *v1.Service) string {
	return keyOf(svc).String()
}

// EnsureLoadBalancer gives a Service its VIPs. A Service that has to wait is an error, of
// which the controller makes an Event. One whose status says already what it should is
// [cloudprovider.ImplementedElsewhere], so that a restart is no Event on every Service.
func (s *stockBalancer) EnsureLoadBalancer(ctx context.Context, _ string, svc *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	if err := errors.Join(s.start(), until(ctx, s.balancer.ready), s.balancer.ctx.Err()); err != nil {
		return nil, err
	}
	decision, err := s.balancer.assign(ctx, svc)
	if err != nil {
		return nil, err
	}
	ingress := ingressOf(decision.Addrs())
	switch {
	case decision.Refused:
		return nil, fmt.Errorf("service %s gets no VIP: %s", keyOf(svc), inventory.ShortenText(decision.String(), maxEvent/2))
	case sameIngress(svc, ingress):
		return nil, cloudprovider.ImplementedElsewhere
	}
	return &v1.LoadBalancerStatus{Ingress: ingress}, nil
}

// UpdateLoadBalancer does nothing when Nodes come and go: each announces for itself.
// Any other answer is an Event on every Service for every Node.
func (s *stockBalancer) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	return cloudprovider.ImplementedElsewhere
}

// EnsureLoadBalancerDeleted does nothing yet: what the Service holds is given back once its
// status does not show it any more, or it is gone.
func (s *stockBalancer) EnsureLoadBalancerDeleted(context.Context, string, *v1.Service) error {
	return s.start()
}

// shows reports whether the status of a Service still shows what it holds.
func (s *stockBalancer) shows(svc *v1.Service) bool {
	return len(showsIn(svc, ask(s.balancer.store, func(s *ipam.State) []netip.Addr { return slices.Clone(s.Holds(keyOf(svc))) }))) > 0
}

// linkedWithin is how long an answer to the stock controller waits for what has to be known.
const linkedWithin = time.Minute

// errNotReady is the error of a question before the VIPs in use and the pools are known.
var errNotReady = errors.New("the VIPs in use are not known yet, or no inventory is in force")

// until waits until c is closed, but not for ever.
func until(ctx context.Context, closing <-chan struct{}) error {
	if closed(closing) {
		return nil
	}
	limit := time.NewTimer(linkedWithin)
	defer limit.Stop()
	select {
	case <-closing:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotReady, ctx.Err())
	case <-limit.C:
		return errNotReady
	}
}
