// Package kubelet plays a machine's kubelet in the lab: it registers the Node,
// keeps its lease and its Ready condition fresh, runs the Pods that the
// scheduler binds to it, each as a network namespace with a small server in it,
// and forwards ports of theirs.
// To the API server it is a kubelet like any other, with a kubelet's rights.
package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Config is what a kubelet is told about its machine.
type Config struct {
	Node          string // name
	Netns         string // the machine's network namespace
	SystemUUID    string
	Version       string         // of Kubernetes, that the Node shows
	CloudProvider string         // "external": register with the taint uninitialized
	NodeIP        string         // for the annotation alpha.kubernetes.io/provided-node-ip; empty: none
	PodCIDRs      []netip.Prefix // empty: those of the Node
	Kube          kubernetes.Interface
	Log           *slog.Logger
	Proxy         Proxy
}

// Run works until ctx ends. Pods stay when it does, as they would without a kubelet.
func Run(ctx context.Context, c Config) error {
	k := &kubelet{
		Config: c,
		nodes: informers.NewSharedInformerFactoryWithOptions(c.Kube, 0,
			informers.WithTweakListOptions(only("metadata.name", c.Node))),
		bound: informers.NewSharedInformerFactoryWithOptions(c.Kube, 0,
			informers.WithTweakListOptions(only("spec.nodeName", c.Node))),
		dirty: make(chan struct{}, 1),
		pods:  map[string]*pod{},
	}
	if err := k.watch(ctx); err != nil {
		return err
	}
	if err := k.register(ctx); err != nil {
		return err
	}
	if err := k.listen(ctx); err != nil {
		return err
	}
	go k.renewLease(ctx)
	go k.superviseProxy(ctx)
	k.loop(ctx)
	return nil
}

type kubelet struct {
	Config
	nodes, bound informers.SharedInformerFactory
	dirty        chan struct{} // something may have to be done
	pods         map[string]*pod
	last         int // host number that was given out last
	reported     time.Time
}

func only(field, value string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }
}

func (k *kubelet) watch(ctx context.Context) error {
	mark := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.mark() },
		UpdateFunc: func(any, any) { k.mark() },
		DeleteFunc: func(any) { k.mark() },
	}
	for _, i := range []cache.SharedIndexInformer{k.nodes.Core().V1().Nodes().Informer(), k.bound.Core().V1().Pods().Informer()} {
		if _, err := i.AddEventHandler(mark); err != nil {
			return err
		}
	}
	k.nodes.Start(ctx.Done())
	k.bound.Start(ctx.Done())
	for _, f := range []informers.SharedInformerFactory{k.nodes, k.bound} {
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("no list of %v: %w", kind, ctx.Err())
			}
		}
	}
	return nil
}

func (k *kubelet) mark() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// loop does what is due whenever something has changed, and looks every second.
func (k *kubelet) loop(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := k.reportNode(ctx); err != nil {
			k.Log.Error("node status", "err", err)
		}
		k.syncPods(ctx)
		select {
		case <-ctx.Done():
			return
		case <-k.dirty:
		case <-tick.C:
		}
	}
}

// node returns the Node as the API server last told it; nil when there is none.
func (k *kubelet) node() *corev1.Node {
	n, err := k.nodes.Core().V1().Nodes().Lister().Get(k.Node)
	if err != nil {
		return nil // the lister knows no other error than "not found"
	}
	return n
}

// podCIDRs returns what this machine's pods get their addresses from, or nothing yet.
func (k *kubelet) podCIDRs() []netip.Prefix {
	if len(k.PodCIDRs) > 0 {
		return k.PodCIDRs
	}
	n := k.node()
	if n == nil {
		return nil
	}
	var list []netip.Prefix
	for _, c := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(c); err == nil {
			list = append(list, p)
		}
	}
	return list
}
