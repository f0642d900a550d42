package document

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// allRouters are those of the spec and of the racks.
func (s *rawSpec) allRouters() []*rawRouter {
	out := slices.Collect(s.Routers.each())
	for rack := range s.Racks.each() {
		out = slices.AppendSeq(out, rack.Routers.each())
	}
	return out
}

// allMachines are those of all racks.
func (s *rawSpec) allMachines() []*rawMachine {
	var out []*rawMachine
	for rack := range s.Racks.each() {
		out = slices.AppendSeq(out, rack.Machines.each())
	}
	return out
}

// allSubnets are those of all racks.
func (s *rawSpec) allSubnets() []scalar[netip.Prefix] {
	var out []scalar[netip.Prefix]
	for rack := range s.Racks.each() {
		out = append(out, rack.Subnets.v...)
	}
	return out
}

// router is what was written about a router; empty where nobody wrote anything.
func (s *rawSpec) router(name string) *rawRouter {
	for _, r := range s.allRouters() {
		if r.Name.v == name {
			return r
		}
	}
	return &rawRouter{}
}

// session is what counts of what the router, the rack and the spec say about their sessions.
func (s *rawSpec) session(rack *rawRack, router *rawRouter) rawSession {
	return rawSession{
		HoldTime:        cmp.Or(router.HoldTime, rack.HoldTime, s.BGP.HoldTime),
		GracefulRestart: cmp.Or(router.GracefulRestart, rack.GracefulRestart, s.BGP.GracefulRestart),
		TTLSecurity:     cmp.Or(router.TTLSecurity, rack.TTLSecurity, s.BGP.TTLSecurity),
		Multihop:        cmp.Or(router.Multihop, rack.Multihop, s.BGP.Multihop),
		BFD:             cmp.Or(router.BFD, rack.BFD, s.BGP.BFD),
		PasswordFrom:    cmp.Or(router.PasswordFrom, rack.PasswordFrom, s.BGP.PasswordFrom),
		Advertise:       rawAnnounce{PodCIDRs: cmp.Or(router.Advertise.PodCIDRs, rack.Advertise.PodCIDRs, s.BGP.Advertise.PodCIDRs)},
		Learn:           cmp.Or(router.Learn, rack.Learn, s.BGP.Learn),
	}
}

// allAddresses are those of address and addresses.
func (r *rawRouter) allAddresses() []scalar[netip.Addr] {
	if r.Address.given() {
		return append([]scalar[netip.Addr]{r.Address}, r.Addresses.v...)
	}
	return r.Addresses.v
}

// gives is what the pool gives of one of its ranges, apart from what it excludes.
func (p *rawPool) gives(r inventory.Range) inventory.Range {
	if p.SkipFirstLast.v {
		return r.Inner()
	}
	return r
}
