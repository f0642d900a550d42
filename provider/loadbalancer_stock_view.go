package provider

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// stockServices is the informer of Services as the stock controller sees it: what was
// served before this process started is not shown as new. The controller would find
// nothing to write there, and would keep a copy of each such Service and, for the Event
// that it meant to begin, another record. Plinth's own controller looks at them instead.
// Every later change is shown, and a Service that is gone, which the controller would keep
// if it never had a finalizer, is shown to it once more.
type stockServices struct{ coreinformers.ServiceInformer }

// Informer returns the informer, to which handlers are added.
func (s stockServices) Informer() cache.SharedIndexInformer {
	return stockInformer{s.ServiceInformer.Informer()}
}

type stockInformer struct{ cache.SharedIndexInformer }

// AddEventHandlerWithResyncPeriod is what the stock controller calls.
func (i stockInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(stockHandler{h}, period)
}

type stockHandler struct{ cache.ResourceEventHandler }

// OnAdd tells of a Service that is new, or not served yet.
func (h stockHandler) OnAdd(obj any, first bool) {
	if svc, ok := obj.(*v1.Service); ok && first && fullyWritten(svc) {
		return
	}
	h.ResourceEventHandler.OnAdd(obj, first)
}

// OnDelete tells of a Service as if it were new: the stock controller only has an eye for
// what comes and changes, then finds it gone and forgets it.
func (h stockHandler) OnDelete(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	h.ResourceEventHandler.OnAdd(obj, false)
}

// fullyWritten reports whether a Service without a class has all that the stock controller
// would write to it.
func fullyWritten(svc *v1.Service) bool {
	return classless(svc) && svc.DeletionTimestamp == nil && servicehelper.HasLBFinalizer(svc) && hasOurVIPs(svc)
}

// stockNodes is the informer of Nodes as the stock controller sees it: there is one Node,
// for ever the same. The controller never forgets which Nodes it last saw for a Service,
// whole and as they were then, not even those of a Service that is long gone. With no
// Node at all it would warn of that on every Service. That Nodes come and go it would pass
// on to UpdateLoadBalancer, which has nothing to do.
type stockNodes struct{ coreinformers.NodeInformer }

// Informer returns the informer, which tells that Nodes are known and nothing else.
func (n stockNodes) Informer() cache.SharedIndexInformer {
	return stockNodeInformer{n.NodeInformer.Informer()}
}

// Lister lists the one Node.
func (stockNodes) Lister() corelisters.NodeLister {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	_ = nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "any"}}) // never fails: it has a name
	return corelisters.NewNodeLister(nodes)
}

type stockNodeInformer struct{ cache.SharedIndexInformer }

// AddEventHandlerWithResyncPeriod is what the stock controller calls. Its handler is
// told nothing.
func (i stockNodeInformer) AddEventHandlerWithResyncPeriod(cache.ResourceEventHandler, time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0)
}
