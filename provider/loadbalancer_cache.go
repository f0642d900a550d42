package provider

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// keptOfService is the transform of the Services' informer. What nobody looks at is not
// kept: a cluster has thousands of Services, and the stock controller copies those that
// it serves once more. What is written to a Service is a patch, so that no field is lost.
func keptOfService(obj any) (any, error) {
	svc, ok := obj.(*v1.Service)
	if !ok {
		return obj, nil
	}
	svc.ManagedFields = nil
	delete(svc.Annotations, v1.LastAppliedConfigAnnotation)
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer && !servicehelper.HasLBFinalizer(svc) && meta.FindStatusCondition(svc.Status.Conditions, VIPAllocated) == nil {
		svc.Annotations, svc.Labels, svc.Spec = nil, nil, v1.ServiceSpec{Type: svc.Spec.Type}
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

// keptOfSpec is what a decision about VIPs depends on.
func keptOfSpec(svc *v1.Service) v1.ServiceSpec {
	s := &svc.Spec
	kept := v1.ServiceSpec{
		Type:                  one(s.Type),
		LoadBalancerClass:     s.LoadBalancerClass,
		LoadBalancerIP:        s.LoadBalancerIP,
		IPFamilies:            s.IPFamilies,
		IPFamilyPolicy:        s.IPFamilyPolicy,
		ExternalTrafficPolicy: one(s.ExternalTrafficPolicy),
	}
	for i, f := range kept.IPFamilies {
		kept.IPFamilies[i] = one(f)
	}
	if kept.IPFamilyPolicy != nil {
		*kept.IPFamilyPolicy = one(*kept.IPFamilyPolicy)
	}
	if servicehelper.RequestsOnlyLocalTraffic(svc) {
		kept.Selector = s.Selector // see backendsOf
	}
	for i, p := range s.Ports {
		s.Ports[i] = v1.ServicePort{Protocol: one(p.Protocol), Port: p.Port}
	}
	kept.Ports = s.Ports
	return kept
}

// everywhere has the strings that every Service has, each of which would be in memory
// as often as there are Services.
var everywhere = map[string]string{}

func init() {
	for _, s := range []string{
		string(v1.ServiceTypeLoadBalancer), string(v1.ServiceTypeClusterIP),
		string(v1.ProtocolTCP), string(v1.ProtocolUDP),
		string(v1.IPv4Protocol), string(v1.IPv6Protocol),
		string(v1.IPFamilyPolicySingleStack), string(v1.IPFamilyPolicyPreferDualStack), string(v1.IPFamilyPolicyRequireDualStack),
		string(v1.ServiceExternalTrafficPolicyCluster), string(v1.ServiceExternalTrafficPolicyLocal),
		string(v1.LoadBalancerIPModeVIP),
		servicehelper.LoadBalancerCleanupFinalizer,
		VIPAllocated, reasonAllocated, string(metav1.ConditionTrue), string(metav1.ConditionFalse),
	} {
		everywhere[s] = s
	}
}

// one returns s, and the same one each time if it is in everywhere.
func one[S ~string](s S) S {
	if same, ok := everywhere[string(s)]; ok {
		return S(same)
	}
	return s
}
