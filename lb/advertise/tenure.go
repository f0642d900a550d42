package advertise

import (
	"slices"
	"time"
)

// tenure is the state of one VIP on one machine.
type tenure struct {
	phase     tenurePhase
	able      []string // machines that can own the VIP, in order
	homes     []string // the controller's choice
	isNew     bool     // the VIP came while this machine was there, and no machine was known to answer for it yet
	succeeds  bool     // an incumbent was there before that was up, so that no probe is needed
	claim     claim
	incumbent incumbent
	probe     probe
	rivals    rivals
}

// observeHomes updates the homes to the controller's choice. With another first home the controller moves the VIP.
func (t *tenure) observeHomes(homes []string) {
	moved := len(t.homes) > 0 && !slices.Equal(t.homes, homes)
	t.homes = homes
	if incumbent := t.incumbent.name; moved && incumbent != "" && (len(homes) == 0 || homes[0] != incumbent) {
		t.succeeds, t.incumbent.name = !t.incumbent.unsure, "" // of one that may have left the VIP to another one it is not known who answers
	}
}

// release ends the machine's claim.
func (t *tenure) release() {
	t.phase.move(vipReleased)
	t.succeeds, t.claim.unconfirmed = false, 0
	t.probe.drop(nobodyAnswers)
	t.rivals.giveWay()
}

// take begins the machine's claim.
func (t *tenure) take(now time.Duration, self string) {
	if !t.phase.answers() {
		t.claim.since = now
	}
	t.phase.move(ownerAnswers)
	t.claim.until, t.succeeds = now, false
	t.incumbent.name, t.incumbent.heir, t.incumbent.unsure = self, false, false
}

// confirm notes that a probe found no other host.
func (t *tenure) confirm(now time.Duration) {
	t.probe.result, t.probe.at = nobodyAnswers, now
	t.claim.unconfirmed = max(0, t.claim.unconfirmed-1)
}

// precedes reports whether the incumbent comes before a machine in the order of those that can own the VIP.
func (t *tenure) precedes(machine string) bool {
	other, incumbent := slices.Index(t.able, machine), slices.Index(t.able, t.incumbent.name)
	return other < 0 || incumbent >= 0 && incumbent < other
}
