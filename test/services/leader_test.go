package services

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/apiserver"
)

// elected starts a controller manager that leads only while it holds the lease.
func (c *cluster) elected() *apiserver.Process {
	c.t.Helper()
	return c.Launch("--configure-cloud-routes=false", "--leader-elect=true", "--leader-elect-lease-duration=5s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms")
}

// burst creates Services of both kinds.
func (c *cluster) burst(name string, n int) {
	c.t.Helper()
	for i := range n {
		change := func(*v1.Service) {}
		if i%2 == 1 {
			change = class
		}
		c.service(fmt.Sprintf("%s%d", name, i), change)
	}
}

// served waits until all Services have one address each, and a claim to it.
func (c *cluster) served(n int) {
	c.t.Helper()
	c.Eventually(time.Minute, fmt.Sprintf("%d Services are served", n), func(ctx context.Context) error {
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
		if claims := c.claims(); len(given) != n || len(claims) != n {
			return fmt.Errorf("%d Services have one, %d VIPs are held", len(given), len(claims))
		}
		return nil
	})
}

func TestChangeOfTheLeaderMovesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/24]}`)
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
	second.Ended(20 * time.Second)
	c.served(70)
	c.sawNothing(w)
	third.Kill()
}
