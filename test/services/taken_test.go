package services

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNoVIPIsGivenThatTheClusterHas has Nodes join that a pool has addresses of, one of them no machine, and a Service come with
// externalIPs. What was given before stays, whoever leads, and what they leave is given again.
func TestNoVIPIsGivenThatTheClusterHas(t *testing.T) {
	c := newCluster(t)
	stop := c.start()
	c.pools(onePool)
	for i := range 4 { // 192.0.2.0 to .3: a VIP in each of what is taken below
		c.service(fmt.Sprint("had", i))
		c.has(fmt.Sprint("had", i), fmt.Sprint("192.0.2.", i))
	}
	machine := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: v1.NodeSpec{PodCIDR: "192.0.2.0/31", PodCIDRs: []string{"192.0.2.0/31"}}}
	_, err := c.Client.CoreV1().Nodes().Create(t.Context(), machine, metav1.CreateOptions{})
	must(t, err)
	stranger, err := c.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}, metav1.CreateOptions{})
	must(t, err)
	stranger.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.2"}, {Type: v1.NodeExternalIP, Address: "192.0.2.4"}}
	_, err = c.Client.CoreV1().Nodes().UpdateStatus(t.Context(), stranger, metav1.UpdateOptions{})
	must(t, err)
	c.service("inside", func(svc *v1.Service) {
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts, svc.Spec.ExternalIPs = v1.ServiceTypeClusterIP, nil, []string{"192.0.2.3", "192.0.2.5"}
	})
	for i, by := range []string{"the pods of node w1 (192.0.2.0/31)", "the pods of node w1 (192.0.2.0/31)", "node stranger", "the externalIPs of service default/inside"} {
		c.toldBy("default", fmt.Sprint("had", i), "AddressExcluded", "is kept and announced, but is taken by "+by)
	}
	c.toldBy("default", "stranger", "PoolTakesAddress", "pool public has 192.0.2.2/32 of node stranger")
	c.toldBy("default", "inside", "PoolTakesAddress", "192.0.2.3 is in pool public, 192.0.2.5 is in pool public")

	stop()
	c.start() // another process leads: it knows no less
	c.service("asks", annotated("plinth.dev/ips", "192.0.2.4"))
	c.toldWhy("asks", "AddressExcluded", "pool public: AddressExcluded (192.0.2.4, taken by node stranger)")
	c.service("asks-too", annotated("plinth.dev/ips", "192.0.2.5"))
	c.toldWhy("asks-too", "AddressExcluded", "pool public: AddressExcluded (192.0.2.5, taken by the externalIPs of service default/inside)")
	c.service("any")
	c.has("any", "192.0.2.6")
	for i := range 4 {
		c.has(fmt.Sprint("had", i), fmt.Sprint("192.0.2.", i))
	}
	must(t, c.Client.CoreV1().Nodes().Delete(t.Context(), "stranger", metav1.DeleteOptions{}))
	c.has("asks", "192.0.2.4")
	c.remove("inside")
	c.has("asks-too", "192.0.2.5")
}

// toldBy waits for a Warning with that text.
func (c *cluster) toldBy(namespace, name, reason, text string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "an Event "+reason+" on "+name+" with "+text, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Type == v1.EventTypeWarning && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("seen are only:\n%s", strings.Join(seen, "\n"))
	})
}
