package vip

import (
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
)

// TrimService is the transform of the Services' informer. What nobody looks at is not
// kept: a cluster has thousands of Services. What is written to a Service is a patch, so
// that no field is lost.
func TrimService(obj any) (any, error) {
	svc, ok := obj.(*v1.Service)
	if !ok {
		return obj, nil
	}
	svc.ManagedFields = nil
	delete(svc.Annotations, v1.LastAppliedConfigAnnotation)
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer && !servicehelper.HasLBFinalizer(svc) && meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) == nil {
		svc.Annotations, svc.Labels, svc.Spec = nil, nil, v1.ServiceSpec{Type: svc.Spec.Type, ClusterIPs: svc.Spec.ClusterIPs, ExternalIPs: svc.Spec.ExternalIPs}
	}
	svc.Spec = keptOfSpec(svc)
	for i := range svc.Finalizers {
		svc.Finalizers[i] = one(svc.Finalizers[i])
	}
	for i := range svc.Status.Conditions {
		c := &svc.Status.Conditions[i]
		c.Type, c.Status, c.Reason = one(c.Type), one(c.Status), one(c.Reason)
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		if mode := svc.Status.LoadBalancer.Ingress[i].IPMode; mode != nil {
			*mode = one(*mode)
		}
	}
	return svc, nil
}

// keptOfSpec returns the fields of a spec that a decision about VIPs depends on, and the addresses that no pool may have.
func keptOfSpec(svc *v1.Service) v1.ServiceSpec {
	spec := &svc.Spec
	kept := v1.ServiceSpec{
		Type:                  one(spec.Type),
		ClusterIPs:            spec.ClusterIPs,
		ExternalIPs:           spec.ExternalIPs,
		LoadBalancerClass:     spec.LoadBalancerClass,
		LoadBalancerIP:        spec.LoadBalancerIP,
		IPFamilies:            spec.IPFamilies,
		IPFamilyPolicy:        spec.IPFamilyPolicy,
		ExternalTrafficPolicy: one(spec.ExternalTrafficPolicy),
	}
	for i, f := range kept.IPFamilies {
		kept.IPFamilies[i] = one(f)
	}
	if kept.IPFamilyPolicy != nil {
		*kept.IPFamilyPolicy = one(*kept.IPFamilyPolicy)
	}
	if servicehelper.RequestsOnlyLocalTraffic(svc) {
		kept.Selector = spec.Selector // see backendsOf
	}
	for i, p := range spec.Ports {
		spec.Ports[i] = v1.ServicePort{Protocol: one(p.Protocol), Port: p.Port}
	}
	kept.Ports = spec.Ports
	return kept
}

// one returns s, and for equal strings the same memory: what every Service says would be
// there as often as there are Services.
func one[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }
