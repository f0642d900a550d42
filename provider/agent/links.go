package agent

import (
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/link"
)

// setLinks hands the links what is planned.
func (a *Agent) setLinks(m inventory.Machine) {
	if a.links != nil {
		a.links.Set(link.Plans{Machine: m.Name, Links: a.witnesses.Fill(a.last.Links)})
	}
}

// findWitnesses looks for the machine's default gateways again.
func (a *Agent) findWitnesses(m inventory.Machine) {
	if a.witnesses.Refresh(a.last.Links) {
		a.setLinks(m)
	}
}

// writeClaims leaves a sign of what is answered for, where that has changed.
func (a *Agent) writeClaims() {
	if a.links == nil || !a.planned {
		return
	}
	if claims := a.links.Claims(); !slices.Equal(claims, a.claimsOnDisk) {
		a.claimsOnDisk = claims
		a.writeAlive()
	}
}
