package diagnose

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/preview"
)

// nearlyFull is the part of a pool's addresses of one family, in percent, of which it is told
// when less is free.
const nearlyFull = 10

// Pool is a pool and what of it is in use.
type Pool struct {
	Name     string  `json:"name"` // empty: VIPs that no pool has
	State    string  `json:"state"`
	VIPs     int     `json:"vips"` // held
	Families []Stock `json:"families,omitempty"`
}

// Stock is the number of addresses that a pool has of one family.
type Stock struct {
	Family string `json:"family"`
	Size   uint64 `json:"size"` // addresses that Services may have, or the largest number where there are more
	Free   uint64 `json:"free"`
}

// poolsOf counts the VIPs that are held, of each pool. One that is of no pool any more stays with its
// Service; it is counted under no name.
func poolsOf(seen Observed) []Pool {
	pools, at := []Pool{}, map[string]int{}
	ledger := ipam.NewLedger()
	ledger.SetPools(seen.Inventory)
	for i, p := range seen.Inventory.Pools {
		pools, at[p.Name] = append(pools, Pool{Name: p.Name, State: string(p.State)}), i
	}
	outside := Pool{State: "no pool"}
	for _, vip := range seen.Claimed {
		ledger.Block(vip)
		if p, ok := seen.Inventory.PoolOf(vip); ok {
			pools[at[p.Name]].VIPs++
		} else {
			outside.VIPs++
		}
	}
	for _, stock := range ledger.CountPools(time.Time{}) {
		p := &pools[at[stock.Pool]]
		p.Families = append(p.Families, Stock{stock.Family.String(), stock.Size, stock.Free})
	}
	if outside.VIPs > 0 {
		pools = append(pools, outside)
	}
	return pools
}

// takenFindings tell of pools that have addresses of pods, Nodes or Services, as where a Node joined after the pool was made. Of
// each the first few are named.
func takenFindings(seen Observed) (out []Finding) {
	byPool := map[string][]string{}
	for _, a := range preview.TakenIn(seen.Inventory, seen.Cluster) {
		byPool[a.Pool] = append(byPool[a.Pool], fmt.Sprintf("%s of %s", a.Of, a.Who))
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		out = append(out, Finding{
			Kind: KindPool, Name: pool, Reason: string(lb.PoolTakesAddress),
			Message: fmt.Sprintf("has %s, so that no VIP is given from there: take them out of the pool, or put them into its exclude", someOf(byPool[pool])),
		})
	}
	return out
}

// poolFindings tell of pools that are full or nearly so, which new VIPs are taken from. A pool that
// was made for one Service is full as it should be: with less than so many addresses none is missed.
func poolFindings(pools []Pool) (out []Finding) {
	const least = 8
	for _, p := range pools {
		for _, stock := range p.Families {
			if p.State != string(inventory.PoolActive) || stock.Size < least || stock.Size == math.MaxUint64 || stock.Free > stock.Size/100*nearlyFull+stock.Size%100*nearlyFull/100 {
				continue
			}
			f := Finding{Kind: KindPool, Name: p.Name, Reason: string(PoolNearlyFull), Message: fmt.Sprintf("is nearly full: %d of %d %s addresses are free", stock.Free, stock.Size, stock.Family)}
			if stock.Free == 0 {
				f.Reason, f.Message = string(lb.PoolExhausted), fmt.Sprintf("is full: none of its %d %s addresses is free", stock.Size, stock.Family)
			}
			out = append(out, f)
		}
	}
	return out
}
