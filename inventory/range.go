package inventory

import (
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strings"

	"go4.org/netipx"
)

// ParseRange reads a prefix ("203.0.113.0/25"), a range ("203.0.113.200-203.0.113.210")
// or one address. Host bits, zones and IPv4 addresses in IPv6 form are errors.
func ParseRange(s string) (Range, error) {
	r, ref := readRange(s)
	if ref != nil {
		return Range{}, fmt.Errorf("%q: %s", s, ref.message)
	}
	return r, nil
}

// RangeOf is the range that p covers.
func RangeOf(p netip.Prefix) Range {
	p = p.Masked()
	return Range{First: p.Addr(), Last: netipx.PrefixLastIP(p), Prefix: true}
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

// setOf are the addresses of some ranges without those of others.
func setOf(ranges, without []Range) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, r := range ranges {
		b.AddRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	for _, r := range without {
		b.RemoveRange(netipx.IPRangeFrom(r.First, r.Last))
	}
	set, _ := b.IPSet() // ranges of valid addresses have no error
	return set
}

// Is4 reports whether the range is of IPv4 addresses.
func (r Range) Is4() bool { return r.First.Is4() }

// compareRanges sorts by family, first and last address.
func compareRanges(a, b Range) int {
	if c := a.First.Compare(b.First); c != 0 {
		return c
	}
	return a.Last.Compare(b.Last)
}

// halves returns the two 64-bit words of an address.
func halves(a netip.Addr) [2]uint64 {
	b := a.As16()
	var w [2]uint64
	for i, x := range b {
		w[i/8] = w[i/8]<<8 | uint64(x)
	}
	return w
}

// readRange is ParseRange with a reason for a no.
func readRange(s string) (Range, *refusal) {
	if strings.Contains(s, "/") {
		p, ref := readPrefix(s)
		if ref != nil {
			return Range{}, ref
		}
		return RangeOf(p), nil
	}
	first, last, isRange := strings.Cut(s, "-")
	a, ref := readAddr(strings.TrimSpace(first))
	if !isRange || ref != nil {
		return Range{First: a, Last: a}, ref.within("", s[len(first):])
	}
	b, ref := readAddr(strings.TrimSpace(last))
	if ref != nil {
		return Range{}, ref.within(first+"-", "")
	}
	return orderedRange(a, b)
}

// within is a refusal of a part of a text: what it suggests is the whole.
func (r *refusal) within(before, after string) *refusal {
	if r != nil && r.suggestion != "" {
		r.suggestion = before + r.suggestion + after
	}
	return r
}

// orderedRange refuses what is not two addresses of one family in their order.
func orderedRange(a, b netip.Addr) (Range, *refusal) {
	switch {
	case a.BitLen() != b.BitLen():
		return Range{}, &refusal{code: BadRange, message: "the two ends are of different families",
			accepted: "first-last of one family, a prefix, or an address"}
	case b.Less(a):
		return Range{}, &refusal{code: BadRange, message: "the last address comes before the first",
			accepted: "first-last with first <= last", suggestion: b.String() + "-" + a.String()}
	}
	return Range{First: a, Last: b}, nil
}
