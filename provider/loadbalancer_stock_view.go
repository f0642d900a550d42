package provider

import (
	"time"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// stockServices is the informer of Services as the stock controller sees it: what was
// served before this process started is not shown as new. The controller would find
// nothing to write there, and would keep a copy of each such Service and, for the Event
// that it meant to begin, another record. Plinth's own controller looks at them instead.
// Every later change is shown.
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
	if svc, ok := obj.(*v1.Service); ok && first && served(svc) {
		return
	}
	h.ResourceEventHandler.OnAdd(obj, first)
}

// served reports whether a Service without a class has all that the stock controller
// would write to it.
func served(svc *v1.Service) bool {
	return classless(svc) && svc.DeletionTimestamp == nil && servicehelper.HasLBFinalizer(svc) && stated(svc)
}
