package vip

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb"
)

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
