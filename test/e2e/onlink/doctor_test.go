package onlink

import (
	"testing"

	"plinth.dev/plinth/test/e2e/story"
)

// TestNothingStandsInTheWayOnAMachineThatIsWell has plinth doctor ask the link for VIPs that the machine, and others, answer for.
func TestNothingStandsInTheWayOnAMachineThatIsWell(t *testing.T) {
	l := story.Home(t)
	story.Owned(t, l, story.Outside(t, l, "well", "healthy"))
	story.NothingInTheWay(t, l, l.Topology.Machines()[0].Name)
}
