//go:build privileged && timing

package agent

import (
	"testing"
	"time"
)

func TestRouteThatAForeignHandDeletesIsBackWithinASecond(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	before := sh(t, "ip route show proto 114")
	var took []time.Duration
	for range 3 { // a busy machine may be late once
		sh(t, "ip route flush proto 114")
		flushed := time.Now()
		eventually(t, "the routes are back", func() (bool, string) {
			got := sh(t, "ip route show proto 114")
			return got == before, got
		})
		took = append(took, time.Since(flushed))
		if took[len(took)-1] <= time.Second {
			return
		}
	}
	t.Errorf("it took %v", took)
}
