package probe

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
)

// segments are the addresses of a pool in a subnet, without those that are excluded.
func segments(pool machine.Pool, subnet netip.Prefix) (all []inventory.Range) {
	within := inventory.RangeOf(subnet)
	for _, ipRange := range pool.Ranges {
		if !ipRange.Overlaps(within) {
			continue
		}
		if ipRange.First.Less(within.First) {
			ipRange.First = within.First
		}
		if within.Last.Less(ipRange.Last) {
			ipRange.Last = within.Last
		}
		all = append(all, ipRange)
	}
	for _, x := range pool.Exclude {
		all = without(all, x)
	}
	return all
}

// without removes addresses from ranges.
func without(all []inventory.Range, ipRange inventory.Range) (left []inventory.Range) {
	for _, rest := range all {
		if !rest.Overlaps(ipRange) {
			left = append(left, rest)
			continue
		}
		if rest.First.Less(ipRange.First) {
			left = append(left, inventory.Range{First: rest.First, Last: ipRange.First.Prev()})
		}
		if ipRange.Last.Less(rest.Last) {
			left = append(left, inventory.Range{First: ipRange.Last.Next(), Last: rest.Last})
		}
	}
	return left
}

// spread are at most so many addresses, at the same distance from each other, the first and the last among them; and whether there are more.
func spread(all []inventory.Range, most int) (some []netip.Addr, more bool) {
	total := uint64(0)
	for _, r := range all {
		sum, carry := bits.Add64(total, r.Size(), 0)
		if total = sum; carry > 0 {
			total = math.MaxUint64
		}
	}
	number := min(total, uint64(most))
	for i := range number {
		high, low := bits.Mul64(i, total-1)
		at, _ := bits.Div64(high, low, max(1, number-1))
		some = append(some, nth(all, at))
	}
	return some, number < total
}

// nth is the address with a number, counted through all ranges from 0 on.
func nth(all []inventory.Range, at uint64) netip.Addr {
	for _, ipRange := range all {
		if size := ipRange.Size(); at >= size && size < math.MaxUint64 {
			at -= size
			continue
		}
		b := ipRange.First.As16()
		low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), at, 0)
		binary.BigEndian.PutUint64(b[8:], low)
		binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
		a := netip.AddrFrom16(b)
		if ipRange.Is4() {
			a = a.Unmap()
		}
		return a
	}
	return netip.Addr{}
}
