package agent

import "testing"

// On a machine that has just booted kube-proxy may take longer than a resync to make the
// API server's address work: the agent has no inventory when its first one comes.
func TestAnAgentThatWaitsForItsInventoryOutlivesAResync(t *testing.T) {
	a := new(Agent)
	a.writeAlive()
	a.checkSettings()
	if a.planned || a.settings != nil {
		t.Errorf("it has planned (%v) and found settings %v without an inventory", a.planned, a.settings)
	}
}
