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
func segments(p machine.Pool, subnet netip.Prefix) (all []inventory.Range) {
	within := inventory.RangeOf(subnet)
	for _, r := range p.Ranges {
		if !r.Overlaps(within) {
			continue
		}
		if r.First.Less(within.First) {
			r.First = within.First
		}
		if within.Last.Less(r.Last) {
			r.Last = within.Last
		}
		all = append(all, r)
	}
	for _, x := range p.Exclude {
		all = without(all, x)
	}
	return all
}

// without takes addresses out of ranges.
func without(all []inventory.Range, x inventory.Range) (left []inventory.Range) {
	for _, r := range all {
		if !r.Overlaps(x) {
			left = append(left, r)
			continue
		}
		if r.First.Less(x.First) {
			left = append(left, inventory.Range{First: r.First, Last: x.First.Prev()})
		}
		if x.Last.Less(r.Last) {
			left = append(left, inventory.Range{First: x.Last.Next(), Last: r.Last})
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
	for _, r := range all {
		if size := r.Size(); at >= size && size < math.MaxUint64 {
			at -= size
			continue
		}
		b := r.First.As16()
		low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), at, 0)
		binary.BigEndian.PutUint64(b[8:], low)
		binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
		a := netip.AddrFrom16(b)
		if r.Is4() {
			a = a.Unmap()
		}
		return a
	}
	return netip.Addr{}
}
