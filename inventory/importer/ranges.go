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

// takeRange reads a range for a pool, of whatever source. That it cannot have it is an error which says why.
func (d *draft) takeRange(text, pool string) (inventory.Range, error) {
	one, err := rangeIn(text)
	if err != nil {
		return one, err
	}
	return one, d.hold(one, pool)
}

// hold says that a pool has a range. Where that cannot be nothing is held.
func (d *draft) hold(one inventory.Range, pool string) error {
	if !one.First.IsGlobalUnicast() || !one.Last.IsGlobalUnicast() {
		return fmt.Errorf("%v has addresses that no router carries", one)
	}
	i := d.heldFrom(one)
	if i < len(d.held) && d.held[i].Overlaps(one) {
		return fmt.Errorf("%v has addresses that pool %s has already", one, d.held[i].pool)
	}
	d.held = slices.Insert(d.held, i, heldRange{one, pool})
	return nil
}

// heldFrom is where the first held range is that does not end before another one begins.
func (d *draft) heldFrom(one inventory.Range) int {
	i, _ := slices.BinarySearchFunc(d.held, one.First, func(h heldRange, first netip.Addr) int {
		if h.Last.Less(first) {
			return -1
		}
		return 1
	})
	return i
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
				d.notes = append(d.notes, Note{Severity: Told, Code: Guessed, Path: "spec.pools[" + pool + "]", Message: fmt.Sprintf("%v is the address of %s, and excluded", a, who)})
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

// leaveOutPool tells why a pool is left out which has none of the ranges at a path: the first reason of those that were noted.
func (d *draft) leaveOutPool(o *object, path string) {
	why := ""
	for _, n := range d.notes {
		if n.of == o && within(n.Path, path) {
			why = " (" + strings.TrimSuffix(n.Message, ": it is left out") + ")"
			break
		}
	}
	d.leaveOut(o, path, NotValid, "has no address that a pool can have"+why+": the pool is left out")
}
