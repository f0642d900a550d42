//go:build slow

package services

import (
	"testing"
	"time"
)

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
