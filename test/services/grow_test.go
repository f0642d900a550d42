package services

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkPoolGrowsUntilThoseWhoWaitAreServed measures from the edit of the inventory's
// ConfigMap to the status of the first and of the last of a hundred Services that wait.
func BenchmarkPoolGrowsUntilThoseWhoWaitAreServed(b *testing.B) {
	const rounds, n = 5, 100
	c := newCluster(b)
	c.start()
	yaml := "    - {name: one, addresses: [192.0.2.0/32]}\n"
	c.pools(yaml)
	c.service("holds")
	c.has("holds", "192.0.2.0")
	var first, last []time.Duration
	for round := range rounds {
		pool := fmt.Sprint("pool", round)
		for i := range n {
			c.service(fmt.Sprintf("waits%d-%d", round, i), annotated("plinth.dev/pool", pool))
		}
		for i := range n {
			c.refused(fmt.Sprintf("waits%d-%d", round, i), "PoolUnknown")
		}
		yaml += fmt.Sprintf("    - {name: %s, addresses: [198.51.%d.0/25]}\n", pool, 100+round)
		from := time.Now()
		c.pools(yaml)
		first = append(first, c.untilServed(1+round*n+1, from))
		last = append(last, c.untilServed(1+round*n+n, from))
	}
	slices.Sort(first)
	slices.Sort(last)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(first[rounds/2].Milliseconds()), "ms-first")
	b.ReportMetric(float64(last[rounds/2].Milliseconds()), "ms-last-of-100")
}

// untilServed waits until that many Services have an address.
func (c *cluster) untilServed(n int, from time.Time) time.Duration {
	c.t.Helper()
	c.Eventually(30*time.Second, fmt.Sprintf("%d are served", n), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		have := 0
		for i := range list.Items {
			have += len(list.Items[i].Status.LoadBalancer.Ingress)
		}
		if have < n {
			return fmt.Errorf("%d are", have)
		}
		return nil
	})
	return time.Since(from)
}
