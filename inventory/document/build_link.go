package document

import (
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// settings are what one place says about links.
func (r *rawOnLink) settings() inventory.OnLink {
	o := inventory.OnLink{BFD: option(r.BFD), Witness: values(r.Witness), AnnounceEvery: option(r.AnnounceEvery)}
	slices.SortFunc(o.Witness, netip.Addr.Compare)
	return o
}

// link is one that a slice has.
func (r *rawStoredLink) link() inventory.Link {
	l := inventory.Link{Subnet: r.Subnet.v, Interval: r.Interval.v, Multiplier: uint8(r.Multiplier.v), Witness: values(r.Witness), AnnounceEvery: r.AnnounceEvery.v}
	for m := range r.Machines.each() {
		l.Machines = append(l.Machines, inventory.LinkMachine{Name: m.Name.v, Rack: m.Rack.v, Zone: m.Zone.or(m.Rack.v), Addr: m.Address.v, State: m.State.or(inventory.StateActive)})
	}
	return l
}

// via is the word of the first of a pool's advertisements that has one.
func (r *rawPool) via() scalar[inventory.Via] {
	for a := range r.Advertise.each() {
		if a.Via.given() {
			return a.Via
		}
	}
	return scalar[inventory.Via]{}
}
