package document

import (
	"fmt"
	"net/netip"
	"strings"

	"plinth.dev/plinth/inventory"
)

// ParseRange reads a prefix ("203.0.113.0/25"), a range ("203.0.113.200-203.0.113.210")
// or one address. Host bits, zones and IPv4 addresses in IPv6 form are errors.
func ParseRange(s string) (inventory.Range, error) {
	r, ref := readRange(s)
	if ref != nil {
		return inventory.Range{}, fmt.Errorf("%q: %s", s, ref.message)
	}
	return r, nil
}

// readAddrRange reads a range of addresses.
var readAddrRange = checked(readRange)

// readRange is ParseRange with a reason for a no.
func readRange(text string) (inventory.Range, *refusal) {
	if strings.Contains(text, "/") {
		p, ref := readPrefix(text)
		if ref != nil {
			return inventory.Range{}, ref
		}
		return inventory.RangeOf(p), nil
	}
	first, last, isRange := strings.Cut(text, "-")
	addr, ref := readAddr(strings.TrimSpace(first))
	if !isRange || ref != nil {
		return inventory.Range{First: addr, Last: addr}, ref.within("", text[len(first):])
	}
	b, ref := readAddr(strings.TrimSpace(last))
	if ref != nil {
		return inventory.Range{}, ref.within(first+"-", "")
	}
	return orderedRange(addr, b)
}

// within is a refusal of a part of a text: what it suggests is the whole.
func (r *refusal) within(before, after string) *refusal {
	if r != nil && r.suggestion != "" {
		r.suggestion = before + r.suggestion + after
	}
	return r
}

// orderedRange refuses what is not two addresses of one family in their order.
func orderedRange(addr, other netip.Addr) (inventory.Range, *refusal) {
	switch {
	case addr.BitLen() != other.BitLen():
		return inventory.Range{}, &refusal{code: inventory.BadRange, message: "the two ends are of different families",
			accepted: "first-last of one family, a prefix, or an address"}
	case other.Less(addr):
		return inventory.Range{}, &refusal{code: inventory.BadRange, message: "the last address comes before the first",
			accepted: "first-last with first <= last", suggestion: other.String() + "-" + addr.String()}
	}
	return inventory.Range{First: addr, Last: other}, nil
}
