package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// heldRange is a range that a pool has. No two of a draft share an address.
type heldRange struct {
	inventory.Range
	pool string
}

// rangeIn reads a range as other programs write it: prefixes may have host bits, and ranges blanks.
func rangeIn(text string) (inventory.Range, error) {
	text = strings.TrimSpace(text)
	if p, err := netip.ParsePrefix(text); err == nil {
		return document.ParseRange(p.Masked().String())
	}
	if first, last, ok := strings.Cut(text, "-"); ok {
		text = strings.TrimSpace(first) + "-" + strings.TrimSpace(last)
	}
	return document.ParseRange(text)
}

// heldRanges are the ranges that pools have.
type heldRanges struct {
	held []heldRange // by their first address
}

// takeRange reads a range for a pool, of whatever source. That it cannot have it is an error which says why.
func (h *heldRanges) takeRange(text, pool string) (inventory.Range, error) {
	one, err := rangeIn(text)
	if err != nil {
		return one, err
	}
	return one, h.hold(one, pool)
}

// hold records that a pool has a range. Where that cannot be nothing is held.
func (h *heldRanges) hold(one inventory.Range, pool string) error {
	if !one.First.IsGlobalUnicast() || !one.Last.IsGlobalUnicast() {
		return fmt.Errorf("%v has addresses that no router carries", one)
	}
	i := h.heldFrom(one)
	if i < len(h.held) && h.held[i].Overlaps(one) {
		return fmt.Errorf("%v has addresses that pool %s has already", one, h.held[i].pool)
	}
	h.held = slices.Insert(h.held, i, heldRange{one, pool})
	return nil
}

// heldFrom returns the index of the first held range that does not end before another one begins.
func (h *heldRanges) heldFrom(one inventory.Range) int {
	index, _ := slices.BinarySearchFunc(h.held, one.First, func(before heldRange, first netip.Addr) int {
		if before.Last.Less(first) {
			return -1
		}
		return 1
	})
	return index
}

// exclude takes an address out of all pools, and returns the names of those that had it to give.
func (d *draft) exclude(a netip.Addr) (pools []string) {
	has := func(r inventory.Range) bool { return r.Contains(a) }
	for i := range d.inv.Pools {
		if p := &d.inv.Pools[i]; slices.ContainsFunc(p.Ranges, has) && !slices.ContainsFunc(p.Exclude, has) {
			p.Exclude = append(p.Exclude, inventory.Range{First: a, Last: a})
			pools = append(pools, p.Name)
		}
	}
	return pools
}

// excludeHosts takes addresses of machines and routers out of the pools: they can be no VIPs.
func (d *draft) excludeHosts() {
	exclude := func(addrs []netip.Addr, who string) {
		for _, a := range addrs {
			for _, pool := range d.exclude(a) {
				d.guess("spec.pools["+pool+"]", fmt.Sprintf("%v is the address of %s, and excluded", a, who))
			}
		}
	}
	for _, r := range d.inv.Routers {
		exclude(r.Addresses, "router "+r.Name)
	}
	for _, r := range d.inv.Racks {
		for _, m := range r.Machines {
			exclude(append(slices.Clone(m.Addresses), m.ExternalAddresses...), "machine "+m.Name)
		}
	}
}
