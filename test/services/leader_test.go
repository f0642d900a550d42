package services

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// elected starts a controller manager that leads only while it holds the lease.
func (c *cluster) elected(flags ...string) *apiserver.Process {
	c.t.Helper()
	return c.Launch(append([]string{"--configure-cloud-routes=false", "--leader-elect=true", "--leader-elect-lease-duration=8s",
		"--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}, flags...)...)
}

// burst creates Services of both kinds, and of one family, the other, and both.
func (c *cluster) burst(name string, n int) {
	c.t.Helper()
	for i := range n {
		var change []func(*v1.Service)
		if i%2 == 1 {
			change = append(change, class)
		}
		switch i / 2 % 4 {
		case 1:
			change = append(change, bothFamilies)
		case 2:
			change = append(change, families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol))
		case 3:
			change = append(change, families(v1.IPFamilyPolicyPreferDualStack, v1.IPv6Protocol, v1.IPv4Protocol))
		}
		c.service(fmt.Sprintf("%s%d", name, i), change...)
	}
}

// served waits until n Services have an address of each of their families, no two of
// them the same one, and hold what they have, and nothing else is held.
func (c *cluster) served(n int) {
	c.t.Helper()
	c.Eventually(time.Minute, fmt.Sprintf("%d Services are served", n), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		served, owner := 0, map[string]string{}
		for i := range list.Items {
			svc := &list.Items[i]
			has := ingress(svc)
			for _, ip := range has {
				if owner[ip] != "" {
					return fmt.Errorf("%s: %s and %s", ip, owner[ip], svc.Name)
				}
				owner[ip] = svc.Name
				if err := c.holds(ctx, ip, "default/"+svc.Name); err != nil {
					return err
				}
			}
			if len(has) == len(svc.Spec.IPFamilies) {
				served++
			}
		}
		if claims := c.claims(); served != n || len(claims) != len(owner) {
			return fmt.Errorf("%d Services are served with %d VIPs, %d VIPs are held", served, len(owner), len(claims))
		}
		return nil
	})
}

func TestChangeOfTheLeaderMovesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.pools(bothPool)
	first := c.elected()
	c.burst("a", 10)
	c.served(10)
	w := c.watch()

	second := c.elected()
	c.burst("b", 20)
	first.Kill() // in the middle of it
	c.burst("c", 10)
	c.served(40)

	third := c.elected()
	c.burst("d", 20)
	second.Pause() // and it does not know
	c.burst("e", 10)
	c.served(70)
	c.remove("a0", "a1") // what the one that sleeps holds for them goes to their successors of that name
	c.gone("a0")
	c.gone("a1")
	c.burst("a", 2)
	c.served(70)
	second.Resume()
	second.Ended(60 * time.Second)
	c.served(70)
	c.sawNothing(w)
	third.Kill()
}
