package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// An AS number with a digit wrong ends one session for each of its router's, that of the machine
// which tries it first, and nobody's traffic, for the router keeps its routes for longer; the right edit ends each session once.
func TestNewTermsOfSessionsAreTriedOnOneMachineFirst(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "trial", 2)
	vips := story.Expose(t, l, lab.LoadBalancer("trial", "trial"))
	story.Announced(t, l, vips)
	usual := story.Edited(t, lab.Inventory(l.Topology), "spec:\n", "spec:\n  safety: {sessionTrial: 15s}\n") // routers keep routes for 20s
	must(t, l.ApplyInventory(t.Context(), usual))
	must(t, story.StatusSays(t, l, "true", "", 20*time.Second))
	router := l.Topology.Routers[0].Name
	before := losses(t, l, router)
	probe, moves := story.Probing(t, l, vips[0], 50), story.RouterMoves(t, l, vips[:1])

	t.Cleanup(func() { must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology))) })
	wrong := story.Edited(t, usual, fmt.Sprintf("asn: %d, os:", l.Topology.Routers[0].ASN), "asn: 64999, os:")
	must(t, l.ApplyInventory(t.Context(), wrong))
	must(t, story.StatusSays(t, l, "false", "on trial until", 10*time.Second))
	must(t, story.StatusSays(t, l, "false", "P1011", 45*time.Second))
	text, well, err := l.Status(t.Context())
	if err != nil || well || !strings.Contains(text, "P1011") {
		t.Errorf("plinth status says, with error %v:\n%s", err, text)
	}
	must(t, l.RestartCCM(t.Context())) // the next leader does not try it again
	must(t, story.StatusSays(t, l, "false", "was tried before", 20*time.Second))
	all := slices.Sorted(maps.Keys(before))
	for _, machine := range all {
		must(t, l.WaitSessions(t.Context(), machine))
	}
	after := losses(t, l, router)
	var tried []string
	for _, machine := range all {
		if after[machine] > before[machine] {
			tried = append(tried, fmt.Sprintf("%s: %d", machine, after[machine]-before[machine]))
		}
	}
	t.Logf("the AS was wrong: sessions with %s were lost by %v of %v", router, tried, all)
	if len(tried) != 1 {
		t.Errorf("%d machines lost sessions with %s: %v; one was to try it", len(tried), router, tried)
	}

	must(t, l.ApplyInventory(t.Context(), story.Edited(t, usual, "holdTime: 3s", "holdTime: 4s")))
	must(t, story.StatusSays(t, l, "true", "", 45*time.Second))
	for _, machine := range all {
		must(t, l.WaitSessions(t.Context(), machine))
	}
	must(t, probe.Steady(t.Context(), 3*time.Second))
	moved := moves()
	if r := probe.Stop(); len(r.NotMoved(moved[vips[0]])) > 0 {
		t.Errorf("requests were lost, and no router's move explains it: %s", r)
	}
}

// losses is how often machines lost a session with a router, by machine; those that have none are
// left out.
func losses(t *testing.T, l *lab.Lab, router string) map[string]uint64 {
	t.Helper()
	lost := map[string]uint64{}
	for _, rack := range l.Topology.Racks {
		for _, m := range rack.Machines {
			sessions, err := l.Sessions(t.Context(), m.Name)
			must(t, err)
			for _, s := range sessions {
				if s.Router == router {
					lost[m.Name] += s.Losses
				}
			}
		}
	}
	return lost
}
