package vip

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/component-base/metrics/legacyregistry"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/event"
)

// TestTheStockControllerIsAnsweredThoughItAsksLate has the informers run, as they do before the
// stock controller asks for the first time. An informer that is asked for after that is started
// by nobody.
func TestTheStockControllerIsAnsweredThoughItAsksLate(t *testing.T) {
	h := newHeld(t)
	b := New(h.options)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	informers := informers.NewSharedInformerFactory(h.client, 0)
	b.Use(Cluster{Client: h.client, Informers: informers, Reports: event.NewReports(nil), Stop: ctx.Done()})
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { legacyregistry.Registerer().Unregister(vipCollector{b}) })
	if _, _, err := b.Stock().GetLoadBalancer(ctx, "", h.svc[0]); err != nil {
		t.Error(err)
	}
}

// TestUnderTheStockControllerAServiceOfPlinthsClassTakesNoVIP is of Services that nobody
// would write the status of: the stock controller looks at none that has a class.
func TestUnderTheStockControllerAServiceOfPlinthsClassTakesNoVIP(t *testing.T) {
	h, class := newHeld(t), lb.LoadBalancerClass
	h.byStock = true
	for i, change := range []func(*v1.Service){func(svc *v1.Service) { svc.Spec.LoadBalancerClass = &class }, func(*v1.Service) {}} {
		svc := h.svc[i].DeepCopy()
		change(svc)
		h.tells(svc)
		h.serviceCame(svc)
		if err := h.reconcile(t.Context(), h.key(i).String()); err != nil {
			t.Fatal(err)
		}
	}
	h.agree(h.key(1))
}
