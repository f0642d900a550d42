package services

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	c.pools(bothPool)
	given := map[string][]string{}
	const rounds, each = 10, 6
	for round := range rounds {
		stop := c.start()
		c.burst(fmt.Sprintf("s%d-", round), each)
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
	c.served(rounds * each)
	c.unmoved(given)
	if len(given) != rounds*each {
		t.Errorf("%d Services were seen with VIPs", len(given))
	}
}

// unmoved notes which Service has which VIPs, and fails if one has others than before.
func (c *cluster) unmoved(given map[string][]string) {
	c.t.Helper()
	list, err := c.Client.CoreV1().Services("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		svc := &list.Items[i]
		has, had := ingress(svc), given[svc.Name]
		if len(had) > 0 && !slices.Equal(had, has) {
			c.t.Fatalf("%s had %v and now has %v", svc.Name, had, has)
		}
		if len(has) > 0 {
			given[svc.Name] = has
		}
	}
}

func TestTwoLeadersGiveNoAddressTwice(t *testing.T) {
	c := newCluster(t)
	c.pools(bothPool)
	c.start()
	c.start()
	const n = 60
	c.burst("s", n)
	c.served(n)
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
	c.pools(bothPool)
	stop := c.start()
	c.service("a", bothFamilies)
	c.has("a", "192.0.2.0", "2001:db8:2::")
	c.service("b", class)
	c.has("b", "192.0.2.1")
	c.remove("a", "b")
	c.gone("a")
	c.gone("b")
	stop() // at this very moment
	c.start()
	c.service("c", bothFamilies)
	c.has("c", "192.0.2.2", "2001:db8:2::1")
	c.free("192.0.2.0", "192.0.2.1", "2001:db8:2::")
	c.service("a", bothFamilies)
	c.has("a", "192.0.2.0", "2001:db8:2::")
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
