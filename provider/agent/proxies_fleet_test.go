//go:build fleet

package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// What kube-proxy v1.37.1 has by default (pkg/proxy/apis/config/v1alpha1/defaults.go).
const (
	fleetProxyQPS, fleetProxyBurst = 5, 10
	fleetProxySync                 = 15 * time.Minute
)

// fleetProxy has the watches of a kube-proxy v1.37.1, by the same informers with the same selectors, started in the same
// order: its own Node (newNodeManager in pkg/proxy/node.go), then Services, EndpointSlices and ServiceCIDRs (Run in
// cmd/kube-proxy/app/server.go). It keeps of an object no more than its name, which changes nothing for the API server, and
// has no rules to write. The Event that kube-proxy writes at its start is left out.
type fleetProxy struct {
	node   informers.SharedInformerFactory
	others []informers.SharedInformerFactory
	synced atomic.Bool
}

func newFleetProxy(config *rest.Config, node string, carried *fleetTraffic) (fleetWatcher, error) {
	config.ContentType, config.QPS, config.Burst, config.UserAgent = protobuf, fleetProxyQPS, fleetProxyBurst, "kube-proxy"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	following := func(narrow func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(fleetClient{client, carried}, fleetProxySync, informers.WithTransform(fleetName), informers.WithTweakListOptions(narrow))
	}
	nodes := following(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
	})
	nodes.Core().V1().Nodes().Informer()
	services := following(func(o *metav1.ListOptions) {
		o.LabelSelector = "!service.kubernetes.io/service-proxy-name"
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String()
	})
	services.Core().V1().Services().Informer()
	endpoints := following(func(o *metav1.ListOptions) { o.LabelSelector = "!" + corev1.IsHeadlessService })
	endpoints.Discovery().V1().EndpointSlices().Informer()
	cidrs := following(func(*metav1.ListOptions) {})
	cidrs.Networking().V1().ServiceCIDRs().Informer()
	return &fleetProxy{node: nodes, others: []informers.SharedInformerFactory{cidrs, endpoints, services}}, nil
}

func (p *fleetProxy) run(ctx context.Context) {
	p.synced.Store(fleetSync(ctx, p.node) && fleetSync(ctx, p.others...))
}

// fleetSync starts informers and reports whether all were told what there is before the context ended.
func fleetSync(ctx context.Context, all ...informers.SharedInformerFactory) bool {
	for _, factory := range all {
		factory.StartWithContext(ctx)
	}
	return !slices.ContainsFunc(all, func(factory informers.SharedInformerFactory) bool {
		return factory.WaitForCacheSyncWithContext(ctx).Err != nil
	})
}

func (p *fleetProxy) ready() bool { return p.synced.Load() }

// mark is empty: it knows no inventory.
func (p *fleetProxy) mark() string { return "" }

// fleetName keeps of an object its name and version, for so many caches of whole ones would not fit into a machine.
func fleetName(obj any) (any, error) {
	from, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // it says that an object is gone
	}
	name := metav1.ObjectMeta{Namespace: from.GetNamespace(), Name: from.GetName(), UID: from.GetUID(), ResourceVersion: from.GetResourceVersion()}
	switch obj.(type) {
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: name}, nil
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: name}, nil
	case *discoveryv1.EndpointSlice:
		return &discoveryv1.EndpointSlice{ObjectMeta: name}, nil
	}
	return obj, nil
}
