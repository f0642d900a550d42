package report

import (
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
)

// Withheld lists what sessions that are up withhold, once for each reason and family of a session.
func Withheld(sessions []bgp.SessionState) (all []lb.Withheld) {
	for _, s := range sessions {
		if !s.Up {
			continue
		}
		for _, kind := range s.Withheld {
			if kind.Family != lb.NoFamily {
				all = append(all, lb.Withheld{Router: s.Router, Peer: s.Addr.String(), Reason: kind.Reason, Family: kind.Family, All: kind.All()})
			}
		}
	}
	return all
}
