package services

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// witness sees every change of Services and claims, and writes down what must
// never happen: that an address is in two statuses, be it in that of a Service that
// is being deleted, which kube-proxy serves until it is gone; and, of Services that
// nobody changes, that an address moves or is taken away.
type witness struct {
	mu       sync.Mutex
	statuses map[string][]string // by Service
	uids     map[string]types.UID
	moving   map[string]bool // Services that are changed or being deleted
	crimes   []string
}

// mayMove notes Services that are about to be changed.
func (w *witness) mayMove(services ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range services {
		w.moving[s] = true
	}
}

// watch has a witness see what happens from now on.
func (c *cluster) watch() *witness {
	c.t.Helper()
	w := &witness{statuses: map[string][]string{}, uids: map[string]types.UID{}, moving: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	c.t.Cleanup(stop)
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	services, claims := factory.Core().V1().Services().Informer(), factory.Networking().V1().IPAddresses().Informer()
	services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.service(obj.(*v1.Service)) },
		UpdateFunc: func(_, obj any) { w.service(obj.(*v1.Service)) },
		DeleteFunc: func(obj any) { w.goes(obj) },
	})
	claims.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if ip, ok := obj.(*networkingv1.IPAddress); ok {
			w.released(ip)
		}
	}})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return w
}

func (w *witness) service(svc *v1.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := svc.Namespace + "/" + svc.Name
	had, has := w.statuses[name], ingress(svc)
	if svc.DeletionTimestamp != nil {
		w.moving[name] = true
	}
	if w.uids[name] == svc.UID && len(had) > 0 && !slices.Equal(had, has) && !w.moving[name] {
		w.crimes = append(w.crimes, fmt.Sprintf("%s had %v, then %v", name, had, has))
	}
	for other, theirs := range w.statuses {
		for _, ip := range has {
			if other != name && slices.Contains(theirs, ip) {
				w.crimes = append(w.crimes, fmt.Sprintf("%s and %s both have %v", name, other, ip))
			}
		}
	}
	w.statuses[name], w.uids[name] = has, svc.UID
}

func (w *witness) goes(obj any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		delete(w.statuses, name.String())
		delete(w.moving, name.String())
	}
}

func (w *witness) released(ip *networkingv1.IPAddress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, has := range w.statuses {
		if slices.Contains(has, ip.Name) && !w.moving[name] && string(w.uids[name]) == ip.Annotations["plinth.dev/service-uid"] {
			w.crimes = append(w.crimes, fmt.Sprintf("%s no longer holds %s", name, ip.Name))
		}
	}
}

// sawNothing fails the test if something happened that must not.
func (c *cluster) sawNothing(w *witness) {
	c.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, crime := range w.crimes {
		c.t.Error(crime)
	}
	if len(w.statuses) == 0 {
		c.t.Error("the witness was blind")
	}
}
