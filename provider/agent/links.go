package agent

import (
	"log/slog"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// setLinks hands the links what is planned.
func (a *Agent) setLinks(m inventory.Machine) {
	if a.links == nil {
		return
	}
	plans := slices.Clone(a.last.Links)
	for i := range plans {
		l := &plans[i].Link
		if _, known := a.gateways[l.Subnet]; !known {
			a.gateways[l.Subnet] = a.gatewaysOn(plans[i])
		}
		if len(l.Witness) == 0 {
			l.Witness = a.gateways[l.Subnet]
		}
	}
	a.links.set(linkPlans{m.Name, plans})
}

// findWitnesses looks for the machine's default gateways again, which are the witness of the links that they are on, where
// the inventory names none.
func (a *Agent) findWitnesses(m inventory.Machine) {
	changed := false
	for _, p := range a.last.Links {
		found := a.gatewaysOn(p)
		changed = changed || !slices.Equal(found, a.gateways[p.Link.Subnet])
		a.gateways[p.Link.Subnet] = found
	}
	if changed {
		a.setLinks(m)
	}
}

// gatewaysOn are the machine's default gateways on a link. One whose default route is gone stays that until there is another: the
// route goes with the interface, and is back some time after it.
func (a *Agent) gatewaysOn(p advertise.LinkPlan) []netip.Addr {
	found, err := a.findGateways(p.Link.Subnet, p.Self)
	if err != nil {
		slog.Warn("cannot find the default gateways", "subnet", p.Link.Subnet, "err", err)
	}
	if len(found) == 0 {
		return a.gateways[p.Link.Subnet]
	}
	return found
}

// signClaims leaves a sign of what is answered for, where that has changed.
func (a *Agent) signClaims() {
	if a.links == nil || !a.planned {
		return
	}
	if claims := a.links.claims(); !slices.Equal(claims, a.claimsOnDisk) {
		a.claimsOnDisk = claims
		a.writeAlive()
	}
}
