package ipam

import (
	"math"

	"plinth.dev/plinth/lb"
)

// Stock is how many addresses of one family a pool has, each at most the largest number.
type Stock struct {
	Pool   string
	Family lb.Family
	Size   uint64 // that Services may have
	Free   uint64 // neither held, nor reserved, nor in quarantine
}

// Stocks counts what each pool has of each family that it has addresses of, by order of
// preference.
func (l *Ledger) Stocks() (out []Stock) {
	for _, p := range l.pools {
		for _, f := range []lb.Family{lb.IPv4, lb.IPv6} {
			if s := p.of(f); s.size > 0 {
				out = append(out, Stock{Pool: p.Name, Family: f, Size: s.size, Free: s.free.size()})
			}
		}
	}
	return out
}

// size counts the addresses, at most the largest number.
func (f *freeSet) size() uint64 {
	var s stock
	for _, leaf := range f.leaves {
		for _, r := range leaf {
			if s.size == math.MaxUint64 {
				return s.size
			}
			s.grow(r)
		}
	}
	return s.size
}
