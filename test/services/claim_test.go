package services

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestServicesShareAVIP(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(onePool)
	key := annotated("metallb.io/allow-shared-ip", "web")
	c.service("a", key, port(80), bothFamilies)
	c.has("a", "192.0.2.0", "2001:db8:2::")
	c.service("b", key, port(443), bothFamilies)
	c.has("b", "192.0.2.0", "2001:db8:2::")
	c.service("clash", key, port(443), bothFamilies)
	c.has("clash", "192.0.2.1", "2001:db8:2::1")
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.service("thief", key, port(8080), annotated("plinth.dev/ips", "192.0.2.0"), func(svc *v1.Service) { svc.Namespace = "other" })
	c.Eventually(10*time.Second, "the thief is refused", func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("other").Get(ctx, "thief", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(svc.Status.Conditions) != 1 || svc.Status.Conditions[0].Reason != "SharingNamespace" {
			return fmt.Errorf("conditions %v", svc.Status.Conditions)
		}
		return nil
	})

	c.service("waits", key, port(80), annotated("plinth.dev/ips", "192.0.2.0"))
	c.refused("waits", "SharingPortInUse")
	c.change("a", port(8080)) // its port is free
	c.has("waits", "192.0.2.0")
	c.service("next", key, port(80), class, annotated("plinth.dev/ips", "192.0.2.0"))
	c.refused("next", "SharingPortInUse")
	c.remove("waits") // others stay
	c.has("next", "192.0.2.0")
	c.remove("next")
	c.gone("next")

	before := c.claim("192.0.2.0")
	c.remove("a") // the one that the object was made for
	c.Eventually(10*time.Second, "b alone holds the VIP", func(ctx context.Context) error {
		for _, vip := range []string{"192.0.2.0", "2001:db8:2::"} {
			obj, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, vip, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := holders(obj); !slices.Equal(got, []string{"default/b"}) {
				return fmt.Errorf("%s is held by %v", vip, got)
			}
		}
		return nil
	})
	after := c.claim("192.0.2.0")
	if after.UID != before.UID {
		t.Error("the VIP was let go of for a moment")
	}
	if got := after.Annotations["plinth.dev/service-uid"]; got != "released" {
		t.Errorf("service-uid is %q, so that whoever has the parent's name seems to hold the VIP", got)
	}
	c.has("b", "192.0.2.0", "2001:db8:2::")
	c.remove("b")
	c.free("192.0.2.0", "2001:db8:2::") // not the thief's either: they rest
	c.gone("b")
	c.service("b", key, bothFamilies)
	c.has("b", "192.0.2.0", "2001:db8:2::")
}

func (c *cluster) claim(vip string) *networkingv1.IPAddress {
	c.t.Helper()
	obj, err := c.Client.NetworkingV1().IPAddresses().Get(c.t.Context(), vip, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return obj
}

func TestAddressOfAnotherProgramIsLeftAlone(t *testing.T) {
	c := newCluster(t)
	for _, vip := range []string{"192.0.2.0", "2001:db8:2::"} {
		other := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{networkingv1.LabelManagedBy: "example.com"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "things", Name: "thing"}},
		}
		if _, err := c.Client.NetworkingV1().IPAddresses().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	c.pools(onePool)
	c.service("a", bothFamilies)
	c.has("a", "192.0.2.1", "2001:db8:2::1")
	c.service("b", annotated("plinth.dev/ips", "192.0.2.0"))
	c.refused("b", "AddressInUse")
	if err := c.Client.NetworkingV1().IPAddresses().Delete(t.Context(), "192.0.2.0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.has("b", "192.0.2.0") // long before the next audit
}

func TestClaimThatLosesItsLabelIsStillAClaim(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(onePool)
	c.service("a")
	c.has("a", "192.0.2.0")
	patch := []byte(`{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":null}}}`)
	if _, err := c.Client.NetworkingV1().IPAddresses().Patch(t.Context(), "192.0.2.0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(10*time.Second, "the label is there again", func(ctx context.Context) error {
		obj, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, "192.0.2.0", metav1.GetOptions{})
		if err == nil && obj.Labels[networkingv1.LabelManagedBy] != "plinth.dev" {
			err = fmt.Errorf("its labels are %v", obj.Labels)
		}
		return err
	})
	c.has("a", "192.0.2.0")
	c.service("b")
	c.has("b", "192.0.2.1")
}

func TestNoVIPIsGivenFromAServiceCIDRThatCameLater(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(onePool)
	c.service("a")
	c.has("a", "192.0.2.0")
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.4/30"}}}
	if _, err := c.Client.NetworkingV1().ServiceCIDRs().Create(t.Context(), cidr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tried := 0
	c.Eventually(20*time.Second, "Plinth has heard of the ServiceCIDR", func(ctx context.Context) error {
		name := fmt.Sprint("early", tried)
		tried++
		c.service(name, annotated("plinth.dev/ips", "192.0.2.5"))
		defer c.remove(name)
		for ; ; time.Sleep(10 * time.Millisecond) {
			svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			switch got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAllocated"); {
			case got != nil && got.Status == metav1.ConditionTrue:
				return fmt.Errorf("a Service is given %v", svc.Status.LoadBalancer.Ingress)
			case got != nil:
				return nil
			}
		}
	})
	c.service("asks", annotated("plinth.dev/ips", "192.0.2.5"))
	c.refused("asks", "AddressExcluded")
	c.has("a", "192.0.2.0") // what is held stays
}

func TestClaimThatSomebodyDeletedIsMadeAgain(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(onePool)
	c.service("a", bothFamilies)
	vips := []string{"192.0.2.0", "2001:db8:2::"}
	c.has("a", vips...)
	for _, vip := range vips {
		uid := c.claim(vip).UID
		if err := c.Client.NetworkingV1().IPAddresses().Delete(t.Context(), vip, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.Eventually(10*time.Second, "there is a new claim", func(ctx context.Context) error {
			obj, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, vip, metav1.GetOptions{})
			if err == nil && obj.UID == uid {
				return fmt.Errorf("it is the old one")
			}
			return err
		})
	}
	c.has("a", vips...)
}

func TestServiceChangesItsMind(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(onePool + "\n    - {name: other, addresses: [198.51.100.0/29], autoAssign: false}")
	c.service("a")
	c.has("a", "192.0.2.0")
	c.change("a", bothFamilies)
	c.has("a", "192.0.2.0", "2001:db8:2::")
	single := func(svc *v1.Service) {
		families(v1.IPFamilyPolicySingleStack, v1.IPv4Protocol)(svc)
		svc.Spec.ClusterIPs = svc.Spec.ClusterIPs[:1]
	}
	c.change("a", single)
	c.has("a", "192.0.2.0")
	c.free("2001:db8:2::")
	c.pools("    - {name: four, addresses: [192.0.2.0/29]}\n    - {name: other, addresses: [198.51.100.0/29], autoAssign: false}")
	c.AwaitStatus("generation", "2")
	prefer := families(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol)
	c.change("a", prefer)
	c.allocated("a", "OneFamilyOnly")
	c.change("a", bothFamilies)
	c.refused("a", "PoolLacksFamily") // and keeps what it holds
	c.has("a", "192.0.2.0")
	c.change("a", prefer)
	c.allocated("a", "OneFamilyOnly")
	c.pools(onePool + "\n    - {name: other, addresses: [198.51.100.0/29], autoAssign: false}")
	c.has("a", "192.0.2.0", "2001:db8:2::")
	c.allocated("a", "Allocated")
	c.change("a", annotated("plinth.dev/ips", "192.0.2.0,2001:db8:2::")) // which it has
	c.change("a", single)
	c.refused("a", "FamilyNotRequested")
	c.has("a", "192.0.2.0")
	c.free("2001:db8:2::")
	c.change("a", func(svc *v1.Service) { delete(svc.Annotations, "plinth.dev/ips") })
	c.allocated("a", "Allocated")
	c.change("a", annotated("plinth.dev/pool", "other"))
	c.has("a", "198.51.100.0")
	c.free("192.0.2.0")
	c.change("a", annotated("plinth.dev/ips", "10.10.1.1")) // the router's
	c.refused("a", "AddressNotInPool")
	c.has("a", "198.51.100.0")
	c.change("a", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
	c.free("198.51.100.0")
	c.Eventually(10*time.Second, "its status is clear", func(ctx context.Context) error { return c.bare(ctx, "a") })
}

func TestServiceThatChangesItsClassAtOnceKeepsItsVIP(t *testing.T) {
	c := newCluster(t)
	p := c.Launch("--configure-cloud-routes=false")
	c.pools(onePool)
	c.service("stock", bothFamilies)
	c.has("stock", "192.0.2.0", "2001:db8:2::")
	c.service("own", bothFamilies, class)
	c.has("own", "192.0.2.1", "2001:db8:2::1")
	for range 2 {
		p.Pause() // so that it finds both edits at once
		for name, to := range map[string]func(*v1.Service){"stock": class, "own": func(svc *v1.Service) { svc.Spec.LoadBalancerClass = nil }} {
			c.change(name, func(svc *v1.Service) { svc.Spec.Type, svc.Spec.LoadBalancerClass = v1.ServiceTypeClusterIP, nil })
			c.change(name, func(svc *v1.Service) {
				svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = v1.ServiceTypeLoadBalancer, new(bool)
				to(svc)
			})
		}
		p.Resume()
		c.settled()
		c.has("stock", "192.0.2.0", "2001:db8:2::")
		c.has("own", "192.0.2.1", "2001:db8:2::1")
		for _, name := range []string{"stock", "own"} {
			c.allocated(name, "Allocated")
		}
	}
	c.remove("stock", "own")
	c.gone("stock")
	c.gone("own")
	c.free("192.0.2.0", "2001:db8:2::", "192.0.2.1", "2001:db8:2::1")
}

func TestWithClassOnlyTheOthersAreLeftAlone(t *testing.T) {
	c := newCluster(t)
	c.pools(onePool)
	stop := c.start()
	c.service("goes", bothFamilies)
	c.has("goes", "192.0.2.0", "2001:db8:2::")
	for i, name := range []string{"turns", "went", "stays", "taken"} {
		c.service(name)
		c.has(name, fmt.Sprint("192.0.2.", i+1))
	}
	stop()
	c.remove("went") // while nobody looks
	c.start("--load-balancer-class-only")
	c.service("classless")
	c.service("ours", class)
	c.has("ours", "192.0.2.5")
	if err := c.bare(t.Context(), "classless"); err != nil {
		t.Error("the Service without a class was touched:", err)
	}

	c.says("taken", "198.51.100.9") // by a balancer that knows of no finalizer
	c.remove("goes", "taken")
	c.change("turns", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
	c.gone("goes")
	c.gone("taken")
	c.gone("went")
	c.free("192.0.2.0", "2001:db8:2::", "192.0.2.1", "192.0.2.2")
	c.Eventually(10*time.Second, "nothing of Plinth's is left on it", func(ctx context.Context) error { return c.bare(ctx, "turns") })
	c.has("stays", "192.0.2.3")
	c.onlyHeld("192.0.2.3", "192.0.2.5")
}
