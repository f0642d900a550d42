package vip

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb/ipam"
)

// errNamespaces is the error while pools that select Namespaces are not known yet. A program that may not list
// Namespaces serves all other inventories.
var errNamespaces = errors.New("the inventory has pools with namespaceSelectors, and the Namespaces are not listed yet; it takes the right to list and watch them")

// TrimNamespace is the transform of the Namespaces' informer: pools select by labels alone.
func TrimNamespace(obj any) (any, error) {
	if ns, ok := obj.(*v1.Namespace); ok {
		kept := &v1.Namespace{}
		kept.Name, kept.UID, kept.ResourceVersion, kept.Labels = ns.Name, ns.UID, ns.ResourceVersion, ns.Labels
		return kept, nil
	}
	return obj, nil
}

// namespacesChange sets the labels of Namespaces in the state, by which pools select them.
func (b *Controller) namespacesChange() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    b.observeNamespace,
		UpdateFunc: func(_, now any) { b.observeNamespace(now) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				b.note(func(s *ipam.State) { s.ForgetNamespace(name) })
			}
		},
	}
}

// observeNamespace looks at the Services of a Namespace again that wait for what another pool may
// give them now, and tells those that keep what they would not get any more.
func (b *Controller) observeNamespace(obj any) {
	ns, ok := obj.(*v1.Namespace)
	if !ok {
		return
	}
	b.apply(func(s *ipam.State) ipam.Effects {
		changed, e := s.ObserveNamespace(ns.Name, ns.Labels, b.now())
		if inv := b.options.InForce.Get(); changed && inv != nil {
			b.retained.report(s, inv)
		}
		return e
	})
}

// refreshNamespace reads the Namespace of a Service live, where pools select by its labels and the
// cache does not have it yet: who makes both at once would get an address of a pool for others.
func (b *Controller) refreshNamespace(ctx context.Context, name string) error {
	inv := b.options.InForce.Get()
	if inv == nil || !inv.SelectsNamespaces() || ask(b.store, func(s *ipam.State) bool { return s.HasNamespace(name) }) {
		return nil
	}
	ns, err := b.cluster.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	b.observeNamespace(ns)
	return nil
}
