package vip

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/provider/event"
)

func TestAnIgnoredAnnotationIsToldOnceForEachChange(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	b := &environment{cluster: Cluster{Recorder: recorder, Reports: event.NewReports(recorder)}}
	told := func() (all []string) {
		for len(recorder.Events) > 0 {
			all = append(all, <-recorder.Events)
		}
		return all
	}
	svc := func(uid types.UID, annotations map[string]string) *v1.Service {
		s := &v1.Service{Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer}}
		s.UID, s.Annotations = uid, annotations
		return s
	}
	dhcp := map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0"}
	two := map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0", "loxilb.io/lbmode": "onearm"}
	for _, step := range []struct {
		name string
		do   func()
		want []string // each in the Events, in order
	}{
		{"a Service with one comes", func() { b.tellIgnored(svc("1", dhcp)) }, []string{"Warning AnnotationIgnored kube-vip.io/loadbalancerIPs: there is no DHCP here"}},
		{"it is seen again", func() { b.tellIgnored(svc("1", dhcp)) }, nil},
		{"another comes", func() { b.tellIgnored(svc("2", dhcp)) }, []string{"kube-vip.io/loadbalancerIPs"}},
		{"the first gets one more", func() { b.tellIgnored(svc("1", two)) }, []string{"loxilb.io/lbmode: kube-proxy balances"}},
		{"it has none any more", func() { b.tellIgnored(svc("1", nil)) }, nil},
		{"and has one again", func() { b.tellIgnored(svc("1", dhcp)) }, []string{"kube-vip.io/loadbalancerIPs"}},
		{"the second is of another program now", func() {
			other := svc("2", two)
			other.Spec.LoadBalancerClass = new("example.com/other")
			b.tellIgnored(other)
		}, nil},
		{"the first goes", func() { b.forgetReports(cache.DeletedFinalStateUnknown{Obj: svc("1", dhcp)}) }, nil},
	} {
		step.do()
		got := told()
		if len(got) != len(step.want) || !slices.EqualFunc(got, step.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	if n := b.cluster.Reports.Open(); n != 0 {
		t.Errorf("%d Services that are gone are remembered", n)
	}
}
