//go:build privileged

package bgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

// A router without RFC 8950 treats IPv4 over IPv6 as withdrawn (BIRD), or accepts it all the same (FRR): it is not announced, and reported.
func TestIPv4OverIPv6IsAnnouncedToRoutersThatOfferToTakeIt(t *testing.T) {
	for dialect, d := range dialects {
		for _, extended := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, offers it: %v", dialect, extended), func(t *testing.T) {
				t.Parallel()
				router := d.start(newRouter(t), neighbour{only6: true, extended: extended})
				session := router.session6()
				session.Families, session.NextHop4 = inventory.Families{IPv4: true, IPv6: true}, netip.Addr{}
				s := newSpeaker(t)
				must(t, s.Set(t.Context(), configOf(plan(session, "203.0.113.10/32", "2001:db8:113::10/128"))))
				eventually(t, 10*time.Second, "what the router takes, it has", func() (bool, string) {
					st := s.State(t.Context())[0]
					has := router.ask("show route") + router.ask("show bgp ipv4 unicast") + router.ask("show bgp ipv6 unicast")
					refused := len(st.Refusals) == 1 && st.Refusals[0].Reason == NextHopNotNegotiated && st.Refused == 1
					ok := st.Up && refused != extended && len(st.Announced)+st.Refused == 2 &&
						strings.Contains(has, "203.0.113.10") == extended && strings.Contains(has, "2001:db8:113::10/128")
					return ok, fmt.Sprintf("%v, %v\n%s", st, st.Refusals, has)
				})
			})
		}
	}
}
