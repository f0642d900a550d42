package inventory

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
)

// TakenAddress is an address of the cluster, or a block of them, that a pool has, or would have.
type TakenAddress struct {
	Pool string
	Of   netip.Prefix
	Who  string // has it
}

// String names the pool, the address that it takes, and the owner.
func (a TakenAddress) String() string {
	return fmt.Sprintf("pool %s takes %s of %s", a.Pool, a.Of, a.Who)
}

// PoolRanges are the addresses that pools have and do not exclude, sorted. Made once, it finds the pools around an address
// however many there are.
type PoolRanges []poolRange

type poolRange struct {
	Range
	pool string
}

// PoolRanges returns the addresses of all pools.
func (inv *Inventory) PoolRanges() (all PoolRanges) {
	for _, p := range inv.Pools {
		for _, r := range RangesOf(p.Addresses()) {
			all = append(all, poolRange{r, p.Name})
		}
	}
	slices.SortFunc(all, func(a, b poolRange) int { return a.Range.Compare(b.Range) })
	return all
}

// Having returns the names of the pools that have an address of a block, sorted.
func (p PoolRanges) Having(block netip.Prefix) (pools []string) {
	within := RangeOf(block)
	from := sort.Search(len(p), func(i int) bool { return p[i].Last.Compare(within.First) >= 0 })
	for _, r := range p[from:] {
		if !r.Overlaps(within) {
			break
		}
		pools = append(pools, r.pool)
	}
	return SortedOnce(pools)
}

// TakenProblems warns of each pool that has addresses of the cluster; the first few are named.
func TakenProblems(all []TakenAddress) (out Problems) {
	byPool := map[string][]string{}
	for _, a := range all {
		byPool[a.Pool] = append(byPool[a.Pool], fmt.Sprintf("%v of %s", a.Of, a.Who))
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		out = append(out, Problem{
			Severity: Warning, Code: PoolHoldsCluster, Path: "spec.pools[" + pool + "].addresses",
			Message:  "has " + Abridged(byPool[pool]) + ", so that no VIP is given from there",
			Accepted: "pools beside them, or exclude",
		})
	}
	return out
}
