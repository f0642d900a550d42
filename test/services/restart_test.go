package services

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// says writes a status as another program would.
func (c *cluster) says(name string, ips ...string) {
	c.t.Helper()
	c.saysIn("default", name, ips...)
}

func (c *cluster) saysIn(namespace, name string, ips ...string) {
	c.t.Helper()
	var all []v1.LoadBalancerIngress
	for _, ip := range ips {
		all = append(all, v1.LoadBalancerIngress{IP: ip})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": all}}})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Services(namespace).Patch(c.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
}

func TestVIPsInStatusesAreTakenOverBeforeAnythingIsGiven(t *testing.T) {
	c := newCluster(t)
	for i := range 5 {
		c.service(fmt.Sprintf("new%d", i))
	}
	c.service("old", class)
	c.says("old", "192.0.2.2")
	c.service("dual", families(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol))
	c.says("dual", "192.0.2.0", "2001:db8:2::5")
	c.service("evil")
	c.says("evil", "10.10.1.1")
	c.pools(onePool + "\n    - {name: prod, addresses: [198.51.100.0/30], namespaces: [prod]}")
	c.service("thief")
	c.says("thief", "198.51.100.1")
	c.start()

	c.has("old", "192.0.2.2")
	c.has("dual", "192.0.2.0", "2001:db8:2::5")
	seen := map[string]bool{"192.0.2.2": true, "192.0.2.0": true}
	c.Eventually(20*time.Second, "the others have VIPs of the pool, except for one", func(ctx context.Context) error {
		got := map[string]bool{}
		for _, n := range []string{"new0", "new1", "new2", "new3", "new4", "evil", "thief"} {
			svc, err := c.Client.CoreV1().Services("default").Get(ctx, n, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, ip := range ingress(svc) {
				if seen[ip] || got[ip] {
					t.Fatalf("%s was given twice", ip)
				}
				got[ip] = true
			}
		}
		if len(got) != 6 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	for _, bad := range []string{"10.10.1.1", "198.51.100.1"} {
		c.free(bad)
	}
}

func TestRestartsUnderAStreamOfServicesMoveNothing(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/24]}`)
	given := map[string]string{}
	const rounds, each = 10, 6
	for round := range rounds {
		stop := c.start()
		for i := range each {
			var change []func(*v1.Service)
			if i%2 == 1 {
				change = append(change, class)
			}
			c.service(fmt.Sprintf("s%d-%d", round, i), change...)
		}
		c.Eventually(20*time.Second, "some are served", func(ctx context.Context) error {
			if n := len(c.claims()); n < round*each+each/2 {
				return fmt.Errorf("%d VIPs are held", n)
			}
			return nil
		})
		stop()
		c.unmoved(given)
	}
	c.start()
	c.Eventually(20*time.Second, "all are served", func(context.Context) error {
		c.unmoved(given)
		if len(given) != rounds*each {
			return fmt.Errorf("%d of %d", len(given), rounds*each)
		}
		return nil
	})
	owner := map[string]string{}
	for name, ip := range given {
		if owner[ip] != "" {
			t.Errorf("%s was given to %s and %s", ip, owner[ip], name)
		}
		owner[ip] = name
		if err := c.holds(t.Context(), ip, "default/"+name); err != nil {
			t.Error(err)
		}
	}
	if got := len(c.claims()); got != rounds*each {
		t.Errorf("%d VIPs are held by %d Services", got, rounds*each)
	}
}

// unmoved notes which Service has which VIP, and fails if one has another than before.
func (c *cluster) unmoved(given map[string]string) {
	c.t.Helper()
	list, err := c.Client.CoreV1().Services("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		svc := &list.Items[i]
		for _, ip := range ingress(svc) {
			if old := given[svc.Name]; old != "" && old != ip {
				c.t.Fatalf("%s had %s and now has %s", svc.Name, old, ip)
			}
			given[svc.Name] = ip
		}
	}
}

func TestTwoLeadersGiveNoAddressTwice(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/25]}`)
	c.start()
	c.start()
	const n = 60
	for i := range n {
		c.service(fmt.Sprintf("s%d", i))
	}
	c.Eventually(30*time.Second, "each has a VIP of its own", func(ctx context.Context) error {
		given, owner := map[string]string{}, map[string]string{}
		c.unmovedOrNot(given)
		for name, ip := range given {
			if owner[ip] != "" {
				return fmt.Errorf("%s: %s and %s", ip, owner[ip], name)
			}
			owner[ip] = name
			if err := c.holds(ctx, ip, "default/"+name); err != nil {
				return err
			}
		}
		if len(given) != n || len(c.claims()) != n {
			return fmt.Errorf("%d Services have one, %d VIPs are held", len(given), len(c.claims()))
		}
		return nil
	})
}

func (c *cluster) unmovedOrNot(given map[string]string) {
	c.t.Helper()
	list, err := c.Client.CoreV1().Services("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		for _, ip := range ingress(&list.Items[i]) {
			given[list.Items[i].Name] = ip
		}
	}
}

func TestWhatWentWhileNobodyLookedIsGivenBack(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/29]}`)
	stop := c.start()
	c.service("stays")
	c.has("stays", "192.0.2.0")
	c.service("goes", class)
	c.has("goes", "192.0.2.1")
	stop()
	c.remove("goes")
	c.start()
	c.free("192.0.2.1")
	c.has("stays", "192.0.2.0")
	c.service("next")
	c.has("next", "192.0.2.2") // 192.0.2.1 rests
	c.service("goes", class)
	c.has("goes", "192.0.2.1")
}

func TestReleasedAddressRestsOverARestart(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/29]}`)
	stop := c.start()
	c.service("a")
	c.has("a", "192.0.2.0")
	c.service("b", class)
	c.has("b", "192.0.2.1")
	c.remove("a", "b")
	c.gone("a")
	c.gone("b")
	stop() // at this very moment
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.service("thief", func(svc *v1.Service) { svc.Namespace = "other" })
	c.saysIn("other", "thief", "192.0.2.0")
	c.start()
	c.Eventually(20*time.Second, "the thief has what is free, and not what it wrote", func(ctx context.Context) error {
		return c.holds(ctx, "192.0.2.2", "other/thief")
	})
	c.service("c")
	c.has("c", "192.0.2.3")
	c.free("192.0.2.0", "192.0.2.1")
	c.service("a")
	c.has("a", "192.0.2.0")
}

func TestServiceWithoutAnInventoryCanBeDeleted(t *testing.T) {
	c := newCluster(t)
	c.pools(onePool)
	stop := c.start()
	c.service("a")
	c.has("a", "192.0.2.0")
	stop()
	maps := c.Client.CoreV1().ConfigMaps("kube-system")
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	c.remove("a")
	c.start()
	c.free("192.0.2.0")
}
