package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/endpoints"
)

// patience is how long a reader waits for informers that have not seen everything yet.
const patience = 10 * time.Second

// Reader reads from informers that others share, and the claims from the API server itself.
//
// It uses these verbs of the API:
//
//	networking.k8s.io ipaddresses     list
//	networking.k8s.io servicecidrs    list watch
//	discovery.k8s.io  endpointslices  list watch
//	                  services, nodes list watch
type Reader struct {
	claims   claim.Client
	nodes    corelisters.NodeLister
	services corelisters.ServiceLister
	slices   cache.Store
	cidrs    networkinglisters.ServiceCIDRLister
	shared   []cache.SharedIndexInformer // of Nodes, Services and EndpointSlices
	synced   []known
}

// known says whether all of one kind has been seen.
type known struct {
	what string
	all  cache.InformerSynced
}

// New returns a Reader. It asks for its informers before they are started.
func New(claims claim.Client, f informers.SharedInformerFactory) (*Reader, error) {
	nodes, services, slices := f.Core().V1().Nodes(), f.Core().V1().Services(), f.Discovery().V1().EndpointSlices()
	cidrs := f.Networking().V1().ServiceCIDRs()
	if err := slices.Informer().SetTransform(trim); err != nil {
		return nil, fmt.Errorf("trimming EndpointSlices in the cache: %w", err)
	}
	return &Reader{
		claims: claims, nodes: nodes.Lister(), services: services.Lister(), slices: slices.Informer().GetStore(), cidrs: cidrs.Lister(),
		shared: []cache.SharedIndexInformer{nodes.Informer(), services.Informer(), slices.Informer()},
		synced: []known{{"nodes", nodes.Informer().HasSynced}, {"services", services.Informer().HasSynced}, {"endpointslices.discovery.k8s.io", slices.Informer().HasSynced},
			{"servicecidrs.networking.k8s.io", cidrs.Informer().HasSynced}},
	}, nil
}

// trim leaves of an EndpointSlice what is read of it: a cluster has thousands.
func trim(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	slice.Labels, slice.Annotations, slice.ManagedFields, slice.OwnerReferences, slice.Ports = endpoints.LabelsRead(slice), nil, nil, nil, nil
	for i, e := range slice.Endpoints {
		slice.Endpoints[i] = discoveryv1.Endpoint{Addresses: e.Addresses[:min(len(e.Addresses), 1)], NodeName: e.NodeName, Conditions: e.Conditions}
	}
	return slice, nil
}

// Read returns the present state of the cluster. Its error names the part that is not known yet.
func (r *Reader) Read(ctx context.Context) (preview.Cluster, error) {
	if err := r.await(ctx); err != nil {
		return preview.Cluster{}, err
	}
	claims, err := r.claims.List(ctx)
	if err != nil {
		return preview.Cluster{}, fmt.Errorf("reading the claims of VIPs: %w", err)
	}
	held, err := heldBy(pointers(claims.Items))
	if err != nil {
		return preview.Cluster{}, err
	}
	o, err := r.cached()
	if err != nil {
		return preview.Cluster{}, err
	}
	return o.whole(held), nil
}

// With returns the present state of the cluster with the given VIPs as those that are held, and no others. It sends no request to
// the API server.
func (r *Reader) With(ctx context.Context, vips map[lb.ServiceKey][]netip.Addr) (preview.Cluster, error) {
	if err := r.await(ctx); err != nil {
		return preview.Cluster{}, err
	}
	held := holdings{}
	for k, all := range vips {
		for _, a := range all {
			held[k] = append(held[k], holding{vip: a})
		}
	}
	o, err := r.cached()
	if err != nil {
		return preview.Cluster{}, err
	}
	return o.around(held), nil
}

// cached returns the objects that the informers have.
func (r *Reader) cached() (all objects, err error) {
	nodes, err1 := r.nodes.List(labels.Everything())
	services, err2 := r.services.List(labels.Everything())
	cidrs, err3 := r.cidrs.List(labels.Everything())
	if err := errors.Join(err1, err2, err3); err != nil {
		return objects{}, err
	}
	all = objects{nodes: nodes, services: services, cidrs: cidrs}
	for _, obj := range r.slices.List() {
		all.slices = append(all.slices, obj.(*discoveryv1.EndpointSlice))
	}
	return all, nil
}

// Nodes returns the Nodes that there are now. They must not be changed.
func (r *Reader) Nodes(ctx context.Context) ([]*v1.Node, error) {
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r.nodes.List(labels.Everything())
}

// List returns the present state of the cluster, by a list of each kind from the API server. ServiceCIDRs are left out where the
// client may not list them, or where the API server has none.
func List(ctx context.Context, client kubernetes.Interface) (preview.Cluster, error) {
	claims, err1 := claim.Client{Kube: client}.List(ctx)
	nodes, err2 := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	services, err3 := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	all, err4 := client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	cidrs, err5 := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err5) || apierrors.IsNotFound(err5) {
		cidrs, err5 = &networkingv1.ServiceCIDRList{}, nil
	}
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return preview.Cluster{}, err
	}
	held, err := heldBy(pointers(claims.Items))
	if err != nil {
		return preview.Cluster{}, err
	}
	return objects{pointers(nodes.Items), pointers(services.Items), pointers(all.Items), pointers(cidrs.Items)}.whole(held), nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// await waits for a while until the informers have seen everything.
func (r *Reader) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, k := range r.synced {
		if !cache.WaitForCacheSync(ctx.Done(), k.all) {
			return fmt.Errorf("%s are not known yet; the controller must be allowed to list and watch them", k.what)
		}
	}
	return nil
}
