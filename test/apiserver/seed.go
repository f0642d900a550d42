package apiserver

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable gives what stories draw at random from a seed; without it each run draws anew.
const SeedVariable = "PLINTH_TEST_SEED"

// Seed is what a story draws from. It tells how to see the same again.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if said := os.Getenv(SeedVariable); said != "" {
		n, err := strconv.ParseUint(said, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
		seed = n
	}
	t.Logf("to see it again: %s=%d", SeedVariable, seed)
	return seed
}
