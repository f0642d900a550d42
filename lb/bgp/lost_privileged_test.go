//go:build privileged

package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// Sessions of either family that came up, and what took them down.
var losses = []struct {
	name   string
	before func(*router, string) // how the router is set up before the sessions come up
	then   func(*router, string)
	again  func(*router, string) // the same once more: a NOTIFICATION can be lost while we write to the connection
	stays  bool                  // the router accepts no connection afterwards, which refutes nothing
	want   Cause
	detail string // part of it
}{
	{name: "the router is silent", then: func(r *router, _ string) { r.dropPackets() }, want: HoldTimerExpired, detail: "silent for the hold time"},
	{name: "somebody shuts them down", then: shutDown, again: shutDownAnew, stays: true, want: RouterShutdown, detail: "new cables"},
	{name: "somebody resets them", then: reset, again: reset, want: RouterShutdown, detail: "administrative"},
	{name: "more prefixes than the router takes", before: limit, again: admitAgain, stays: true, want: PrefixLimit, detail: "announces more than it takes"},
}

// shutDown shuts the session down on the router, with a text of its operator's.
func shutDown(tor *router, dialect string) {
	if dialect == "bird" {
		tor.ask(`disable all "new cables"`)
		return
	}
	var lines []string
	for _, a := range tor.both(neighbour{}) {
		lines = append(lines, fmt.Sprintf("neighbor %v shutdown message new cables", a))
	}
	tor.configure(lines)
}

// shutDownAnew takes the shutdown back, and shuts the sessions down once they are up and have said everything.
func shutDownAnew(tor *router, dialect string) {
	if dialect == "bird" {
		tor.ask("enable all")
	} else {
		var lines []string
		for _, a := range tor.both(neighbour{}) {
			lines = append(lines, fmt.Sprintf("no neighbor %v shutdown", a))
		}
		tor.configure(lines)
	}
	eventually(tor.t, 15*time.Second, "both sessions are up again", tor.established(2))
	tor.count(15*time.Second, 200)
	shutDown(tor, dialect)
}

// limit sets a prefix limit of one of each family on the router. FRR accepts a few more.
func limit(tor *router, _ string) {
	var lines []string
	for _, a := range tor.both(neighbour{}) {
		family := map[bool]string{true: "ipv4", false: "ipv6"}[a.Is4()]
		lines = append(lines, "address-family "+family+" unicast", fmt.Sprintf("neighbor %v maximum-prefix 1", a), "exit-address-family")
	}
	tor.configure(lines, "import all; export none; };\n", "import all; export none; import limit 1 action disable; };\n")
}

// reset resets all sessions on the router.
func reset(r *router, dialect string) {
	r.ask(map[string]string{"frr": "clear bgp *", "bird": "restart all"}[dialect])
}

// admitAgain starts the session on the router again, as its operator would.
func admitAgain(r *router, dialect string) {
	r.ask(map[string]string{"frr": "clear bgp *", "bird": "enable all"}[dialect])
}

func TestASessionThatIsLostNamesItsCause(t *testing.T) {
	for dialect, d := range dialects {
		for _, tt := range losses {
			t.Run(dialect+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				router := d.start(newRouter(t), neighbour{lines: d.lines})
				if tt.before != nil {
					tt.before(router, dialect)
				}
				speaker := newSpeaker(t)
				c := configOf(plan(router.session4(), hundred("203.0.113.%d/32")...), plan(router.session6(), hundred("2001:db8:113::%x/128")...))
				for i := range c.Sessions {
					c.Sessions[i].Session.HoldTime = 3 * time.Second
				}
				must(t, speaker.Set(t.Context(), c))
				if tt.then != nil {
					isUp(t, speaker, 15*time.Second)
					router.count(15*time.Second, 200) // while we write, a reset overtakes the router's NOTIFICATION
					tt.then(router, dialect)
				}
				causeIs(t, speaker, 2, tt.want, tt.detail, func() {
					if tt.again != nil {
						tt.again(router, dialect)
					}
				})
				if tt.stays {
					eventually(t, 40*time.Second, "being refused is added to the cause", func() (bool, string) {
						st := speaker.State(t.Context())
						return !slices.ContainsFunc(st, func(st SessionState) bool {
							return st.Cause != tt.want || !strings.Contains(st.Detail, tt.detail) || !strings.Contains(st.Detail, "; since then ")
						}), fmt.Sprint(st)
					})
				}
			})
		}
	}
}

// causeIs waits until so many sessions were down for a cause, at one time or another.
// It makes it happen again when that takes long.
func causeIs(t testing.TB, s *Speaker, number int, want Cause, detail string, again func()) {
	t.Helper()
	seen := map[netip.Addr]string{}
	next := time.Now().Add(10 * time.Second)
	eventually(t, 25*time.Second, fmt.Sprintf("%d sessions are down for %s: %s", number, want, detail), func() (bool, string) {
		st := s.State(t.Context())
		for _, st := range st {
			named := st.Cause == want || st.Cause == Flapping && strings.Contains(st.Detail, fmt.Sprintf("the last time for %s: ", want))
			if named && strings.Contains(st.Detail, detail) {
				seen[st.Addr] = st.Detail
			}
		}
		if len(seen) < number && time.Now().After(next) {
			next = time.Now().Add(5 * time.Second)
			again()
		}
		return len(seen) == number, fmt.Sprint(st)
	})
	for addr, detail := range seen {
		t.Logf("%v: %s", addr, detail)
	}
}

func TestWhatIsNotBGPIsNamed(t *testing.T) {
	for how, detail := range map[string]string{
		"another protocol":   "what answers at the router is not BGP",
		"an unknown message": "this machine closed the session with code 1(",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t).rogue(how)
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(plan(r.session4(), "203.0.113.10/32"), plan(r.session6(), "2001:db8:113::10/128"))))
			causeIs(t, s, 2, MalformedMessage, detail, func() {})
		})
	}
}

// TestAFilterIsNotTakenForTTLSecurity has a filter drop all of BGP soon after a session came up, so that the attempt before
// heard the router's OPEN and then nothing, as with TTL security at the router's end alone.
func TestAFilterIsNotTakenForTTLSecurity(t *testing.T) {
	for dialect, d := range dialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := d.start(newRouter(t), neighbour{lines: d.lines})
			speaker := newSpeaker(t)
			c := configOf(plan(router.session4(), "203.0.113.10/32"), plan(router.session6(), "2001:db8:113::10/128"))
			for i := range c.Sessions {
				c.Sessions[i].Session.HoldTime = 3 * time.Second
			}
			must(t, speaker.Set(t.Context(), c))
			isUp(t, speaker, 15*time.Second)
			router.nft("add table inet deaf", "add chain inet deaf in { type filter hook input priority 0; }", "add rule inet deaf in tcp dport 179 drop",
				"add rule inet deaf in tcp sport 179 drop")
			eventually(t, 25*time.Second, "both sessions get no answer", func() (bool, string) {
				states := speaker.State(t.Context())
				for _, s := range states {
					if s.Cause == TTLMismatch {
						t.Fatalf("%v: %s: %s", s.Addr, s.Cause, s.Detail)
					}
				}
				return !slices.ContainsFunc(states, func(s SessionState) bool { return s.Cause != NoAnswer }), fmt.Sprint(states)
			})
		})
	}
}
