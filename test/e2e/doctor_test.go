package e2e

import (
	"testing"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestNothingStandsInTheWayOnMachinesThatAreWell has plinth doctor look at each machine while it announces VIPs.
func TestNothingStandsInTheWayOnMachinesThatAreWell(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "well", 4)
	story.Announced(t, l, story.Expose(t, l, lab.LoadBalancer("well", "well")))
	for _, m := range l.Topology.Machines() {
		story.NothingInTheWay(t, l, m.Name)
	}
}
