package inventory

import (
	"cmp"
	"math"
	"math/bits"
	"net/netip"

	"go4.org/netipx"
)

// RangeOf is the range that p covers.
func RangeOf(p netip.Prefix) Range {
	p = p.Masked()
	return Range{First: p.Addr(), Last: netipx.PrefixLastIP(p), Prefix: true}
}

// PrefixRanges are the ranges that prefixes cover.
func PrefixRanges(prefixes []netip.Prefix) []Range {
	ranges := make([]Range, len(prefixes))
	for i, p := range prefixes {
		ranges[i] = RangeOf(p)
	}
	return ranges
}

// String prints a prefix where the range is one, an address where it is a
// single one, else "first-last".
func (r Range) String() string {
	if p, ok := r.AsPrefix(); ok {
		if p.IsSingleIP() && !r.Prefix {
			return r.First.String()
		}
		if r.Prefix {
			return p.String()
		}
	}
	return r.First.String() + "-" + r.Last.String()
}

// AsPrefix returns the prefix that covers exactly the range, if there is one.
func (r Range) AsPrefix() (netip.Prefix, bool) {
	return netipx.IPRangeFrom(r.First, r.Last).Prefix()
}

// Prefixes are the fewest prefixes that cover exactly the range, in ascending order.
func (r Range) Prefixes() []netip.Prefix { return netipx.IPRangeFrom(r.First, r.Last).Prefixes() }

// Contains reports whether a lies in the range.
func (r Range) Contains(a netip.Addr) bool {
	return r.First.BitLen() == a.BitLen() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// Overlaps reports whether the two ranges share an address.
func (r Range) Overlaps(o Range) bool {
	return r.First.BitLen() == o.First.BitLen() && r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0
}

// Inner is the range without its first and last address, which skipFirstLast skips. What
// was not written as a prefix, and what has two addresses or fewer, has neither a network
// nor a broadcast address (RFC 3021, RFC 6164), and is whole.
func (r Range) Inner() Range {
	if !r.Prefix || r.First == r.Last || r.First.Next() == r.Last {
		return r
	}
	return Range{First: r.First.Next(), Last: r.Last.Prev()}
}

// Size is the number of addresses; math.MaxUint64 stands for that many or more.
func (r Range) Size() uint64 {
	first, last := halves(r.First), halves(r.Last)
	low, borrow := bits.Sub64(last[1], first[1], 0)
	high, _ := bits.Sub64(last[0], first[0], borrow)
	if high > 0 || low == math.MaxUint64 {
		return math.MaxUint64
	}
	return low + 1
}

// SetOf are the addresses of some ranges without those of others; none where one of them is no range.
func SetOf(ranges, without []Range) *netipx.IPSet {
	var builder netipx.IPSetBuilder
	for _, r := range ranges {
		builder.AddRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	for _, r := range without {
		builder.RemoveRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	set, err := builder.IPSet()
	if err != nil {
		return new(netipx.IPSet)
	}
	return set
}

// Common are the addresses that two sets share.
func Common(a, b *netipx.IPSet) *netipx.IPSet {
	var builder netipx.IPSetBuilder
	builder.AddSet(a)
	builder.Intersect(b)
	set, _ := builder.IPSet() // ranges of valid addresses have no error
	return set
}

// Is4 reports whether the range is of IPv4 addresses.
func (r Range) Is4() bool { return r.First.Is4() }

// Compare orders ranges by family, first and last address.
func (r Range) Compare(o Range) int { return cmp.Or(r.First.Compare(o.First), r.Last.Compare(o.Last)) }

// halves returns the two 64-bit words of an address.
func halves(a netip.Addr) [2]uint64 {
	b := a.As16()
	var w [2]uint64
	for i, x := range b {
		w[i/8] = w[i/8]<<8 | uint64(x)
	}
	return w
}

// Addresses is the set of what the pool gives.
func (p Pool) Addresses() *netipx.IPSet { return SetOf(p.Ranges, p.Exclude) }

// RangesOf are the ranges of a set, sorted.
func RangesOf(set *netipx.IPSet) []Range {
	var out []Range
	for _, r := range set.Ranges() {
		_, isPrefix := r.Prefix()
		out = append(out, Range{First: r.From(), Last: r.To(), Prefix: isPrefix && r.From() != r.To()})
	}
	return out
}
