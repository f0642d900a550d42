package vip

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// watchIgnored records an Event on each Service of ours that has annotations of another
// balancer which do not count: once, and again when they change.
func (b *environment) watchIgnored(services cache.SharedInformer) error {
	_, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    b.tellIgnored,
		UpdateFunc: func(_, now any) { b.tellIgnored(now) },
		DeleteFunc: b.forgetIgnored,
	})
	return err
}

func (b *environment) tellIgnored(obj any) {
	svc, ok := obj.(*v1.Service)
	if !ok {
		return
	}
	ignored := ipam.IgnoredAnnotations(svc.Annotations)
	if len(ignored) == 0 || !b.isOurs(svc) {
		b.forgetIgnored(svc)
		return
	}
	said := make([]string, len(ignored))
	for i, annotation := range ignored {
		said[i] = annotation.String()
	}
	b.cluster.Reports.Warn(svc, string(lb.AnnotationIgnored), bounded(strings.Join(said, "; "), maxEvent))
}

func (b *environment) forgetIgnored(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if svc, ok := obj.(*v1.Service); ok {
		b.cluster.Reports.Clear(svc, string(lb.AnnotationIgnored))
	}
}
