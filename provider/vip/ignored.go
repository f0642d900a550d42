package vip

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// tellIgnored records an Event on a Service of ours that has annotations of another balancer
// which do not count: once, and again when they change.
func (b *environment) tellIgnored(svc *v1.Service) {
	ignored := ipam.IgnoredAnnotations(svc.Annotations)
	if len(ignored) == 0 || !b.isOurs(svc) {
		b.cluster.Reports.Clear(svc, string(lb.AnnotationIgnored))
		return
	}
	b.cluster.Reports.Warn(svc, string(lb.AnnotationIgnored), inventory.ShortenText(strings.Join(inventory.Strings(ignored), "; "), maxEvent))
}

// forgetReports frees the memory of reports on a Service that is gone.
func (b *environment) forgetReports(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if svc, ok := obj.(*v1.Service); ok {
		for _, reason := range [...]string{string(lb.AnnotationIgnored), string(lb.StatusNotHeld), string(lb.PoolTakesAddress), reasonSyncFailed} {
			b.cluster.Reports.Clear(svc, reason)
		}
	}
}
