package cluster

import (
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
)

// OnChange calls a function whenever something changes that announcements depend on, and now and
// then when nothing does; disputed is called as well where an agent says something else of VIPs on its links
// than before, which people are to be told at once. They must not block.
func (r *Reader) OnChange(call, disputed func()) error {
	for _, informer := range r.shared {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { call() },
			DeleteFunc: func(any) { call() },
			UpdateFunc: func(was, is any) {
				if same(was, is) {
					return
				}
				call()
				if saysOtherwiseOfLinks(was, is) {
					disputed()
				}
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// saysOtherwiseOfLinks reports whether an object is a Node whose agent says something else of its links.
func saysOtherwiseOfLinks(was, is any) bool {
	old, ok1 := was.(*v1.Node)
	now, ok2 := is.(*v1.Node)
	if !ok1 || !ok2 {
		return false
	}
	_, before := saidNow(old)
	_, after := saidNow(now)
	return !slices.Equal(before.Links, after.Links)
}

// same reports whether an object says the same of announcements as before. Heartbeats of Nodes
// come all the time, and EndpointSlices are written without that an endpoint changes.
func same(was, is any) bool {
	switch is := is.(type) {
	case *v1.Node:
		old, ok := was.(*v1.Node)
		return ok && reflect.DeepEqual(nodeOf(old), nodeOf(is))
	case *v1.Service:
		old, ok := was.(*v1.Service)
		return ok && old.UID == is.UID && old.Spec.Type == is.Spec.Type && reflect.DeepEqual(old.Spec.LoadBalancerClass, is.Spec.LoadBalancerClass) &&
			old.Spec.ExternalTrafficPolicy == is.Spec.ExternalTrafficPolicy && old.Annotations[lb.HomeAnnotation] == is.Annotations[lb.HomeAnnotation] && maps.Equal(old.Labels, is.Labels)
	case *discoveryv1.EndpointSlice:
		old, ok := was.(*discoveryv1.EndpointSlice)
		return ok && maps.Equal(old.Labels, is.Labels) && reflect.DeepEqual(old.Endpoints, is.Endpoints)
	}
	return false
}
