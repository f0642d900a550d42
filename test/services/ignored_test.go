package services

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
)

// ignored waits until a Service has these Events that an annotation does not count, each
// recorded once. Messages are told apart by what they begin with.
func (c *cluster) ignored(name string, begins ...string) {
	c.t.Helper()
	c.Eventually(10*time.Second, fmt.Sprintf("%s was told %q", name, begins), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + string(lb.AnnotationIgnored)})
		if err != nil {
			return err
		}
		left := begins
		for _, e := range list.Items {
			if len(left) == 0 || !strings.HasPrefix(e.Message, left[0]) || e.Count != 1 || e.Type != v1.EventTypeWarning {
				return fmt.Errorf("%s %q, %d times", e.Type, e.Message, e.Count)
			}
			left = left[1:]
		}
		if len(left) > 0 {
			return fmt.Errorf("nobody said %q", left)
		}
		return nil
	})
}

// A Service comes from another balancer with wishes that Plinth cannot grant: it is
// served, and whoever looks at it reads which wishes do not count.
func TestAnAnnotationThatDoesNotCountIsAnEventOnItsService(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools("    - {name: public, addresses: [203.0.113.0/28]}\n")
	const dhcp = "kube-vip.io/loadbalancerIPs: there is no DHCP here"
	for _, class := range []*string{nil, new(lb.LoadBalancerClass)} {
		name := map[bool]string{true: "without-a-class", false: "of-our-class"}[class == nil]
		c.service(name, func(s *v1.Service) {
			s.Spec.LoadBalancerClass = class
			s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0", "metallb.io/address-pool": "public"}
		})
		c.ignored(name, dhcp)
		c.allocated(name, "Allocated")

		// Neither another change nor its status being written is news.
		c.change(name, func(s *v1.Service) { s.Annotations["example.com/note"] = "x" })
		c.change(name, func(s *v1.Service) { s.Labels = map[string]string{"a": "b"} })
		c.service(name + "-later")
		c.allocated(name+"-later", "Allocated")
		c.ignored(name, dhcp)
		c.ignored(name + "-later")

		c.change(name, func(s *v1.Service) {
			delete(s.Annotations, "kube-vip.io/loadbalancerIPs")
			s.Annotations["projectcalico.org/ipv4pools"] = `["lan"]`
		})
		c.Eventually(10*time.Second, "the change is told", func(ctx context.Context) error {
			list, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + string(lb.AnnotationIgnored)})
			if err == nil && len(list.Items) != 2 {
				err = fmt.Errorf("%d Events", len(list.Items))
			}
			return err
		})
	}
}

// What other balancers' users wrote is read as it stands.
func TestServicesOfEveryBalancerKeepTheirAddresses(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools("    - {name: public, addresses: [203.0.113.0/28]}\n")
	for name, s := range map[string]struct{ annotation, value, vip string }{
		"cilium":   {"io.cilium/lb-ipam-ips", "203.0.113.3", "203.0.113.3"},
		"kube-vip": {"kube-vip.io/loadbalancerIPs", "203.0.113.4", "203.0.113.4"},
		"purelb":   {"purelb.io/addresses", "203.0.113.5", "203.0.113.5"},
		"calico":   {"projectcalico.org/loadBalancerIPs", `["203.0.113.6"]`, "203.0.113.6"},
		"loxilb":   {"loxilb.io/staticIP", "203.0.113.7", "203.0.113.7"},
	} {
		c.service(name, func(svc *v1.Service) { svc.Annotations = map[string]string{s.annotation: s.value} })
		c.has(name, s.vip)
		c.ignored(name)
	}
}
