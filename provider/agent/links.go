package agent

import (
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/link"
)

// setLinks hands the links what is planned.
func (a *Agent) setLinks(m inventory.Machine) {
	if a.outside.links != nil {
		a.outside.links.Set(link.Plans{Machine: m.Name, Links: a.outside.witnesses.Fill(a.planned.plan.Links)})
	}
}

// findWitnesses looks for the machine's default gateways again.
func (a *Agent) findWitnesses(m inventory.Machine) {
	if a.outside.witnesses.Refresh(a.planned.plan.Links) {
		a.setLinks(m)
	}
}

// writeClaims leaves a sign of what is answered for, where that has changed.
func (a *Agent) writeClaims() {
	if a.outside.links == nil || !a.planned.once {
		return
	}
	if claims := a.outside.links.Claims(); !slices.Equal(claims, a.disk.claims) {
		a.disk.claims = claims
		a.writeAlive()
	}
}
