package agent

import (
	"slices"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
)

// tried is the outcome of the trial of sessions whose new terms this machine tries first.
type tried struct {
	id     string
	before []string       // the routers whose sessions were down when it began
	said   lb.TrialReport // of the last look at the sessions
}

// begin notes, before new terms are applied, which sessions were down under the old ones: those
// have nothing to lose. One with a router that there was none with takes the place of others: nothing is lost where all are down.
func (t *tried) begin(trial *source.Trial, have []bgp.SessionState) {
	if trial == nil || t.id == trial.ID {
		return
	}
	*t = tried{id: trial.ID}
	for _, router := range trial.Routers {
		with := slices.DeleteFunc(slices.Clone(have), func(s bgp.SessionState) bool { return s.Router != router })
		if len(with) == 0 {
			with = have
		}
		if !slices.ContainsFunc(with, func(s bgp.SessionState) bool { return s.Up }) {
			t.before = append(t.before, router)
		}
	}
}

// observe looks at the sessions once the new terms are applied. A router's are up when all that are
// wanted are.
func (t *tried) observe(trial *source.Trial, want []bgp.SessionConfig, have []bgp.SessionState) {
	if trial == nil || t.id != trial.ID {
		return
	}
	t.said = lb.TrialReport{ID: trial.ID, Sessions: map[string]lb.TrialState{}}
	for _, router := range trial.Routers {
		state := lb.TrialUp
		for _, w := range want {
			if w.Session.Router != router {
				continue
			}
			up := slices.ContainsFunc(have, func(s bgp.SessionState) bool { return s.Router == router && s.Addr == w.Session.RouterAddr && s.Up })
			switch {
			case up:
			case slices.Contains(t.before, router):
				state = lb.TrialDownBefore
			default:
				state = lb.TrialDown
			}
		}
		t.said.Sessions[router] = state
	}
}
