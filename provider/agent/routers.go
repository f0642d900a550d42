package agent

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/lb/bgp"
)

// neverUpFor is how long a router that never answered is taken for one that will, while
// another one of its family has its session.
const neverUpFor = 15 * time.Second

// lostRouters are the addresses of routers that get no traffic, since another one of the
// same family has its session and they have not: it was up once, or has not come up for
// long. next is when that is to be asked again; 0: after the next event.
//
// inherited are the routers that the process before this one had lost. They are so until their
// session is up, which deletes them: no session is up at first, and a router that was off
// for the process before is off for this one too.
func lostRouters(states []bgp.SessionState, inherited map[netip.Addr]bool, now time.Time) (lost map[netip.Addr]bool, next time.Duration) {
	up, cameUp := map[bool]bool{}, map[bool]bool{} // by family
	for _, state := range states {
		ipv4 := state.Addr.Is4()
		if state.Up {
			up[ipv4] = true
			delete(inherited, state.Addr)
		}
		cameUp[ipv4] = cameUp[ipv4] || state.Up || state.Losses > 0
	}
	lost = map[netip.Addr]bool{}
	for _, s := range states {
		ipv4, left := s.Addr.Is4(), neverUpFor-now.Sub(s.Since)
		switch {
		case s.Up:
		case inherited[s.Addr] && (up[ipv4] || !cameUp[ipv4]), up[ipv4] && (s.Losses > 0 || left <= 0):
			lost[s.Addr] = true
		case up[ipv4] && (next == 0 || left < next):
			next = left
		}
	}
	return lost, next
}
