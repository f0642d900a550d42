//go:build privileged && timing

package bgp

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var beside = flag.Duration("beside", 40*time.Second, "how long routers reset their sessions in TestAnHonestRouterNeverNoticesOthersThatReset")

// frrNeighbour holds the counters of FRR's sessions. BIRD counts no messages, but routes.
type frrNeighbour struct {
	State    string `json:"bgpState"`
	Sessions int    `json:"connectionsEstablished"`
	Dropped  int    `json:"connectionsDropped"`
	Messages struct {
		Opens         int `json:"opensRecv"`
		Notifications int `json:"notificationsRecv"`
		Updates       int `json:"updatesRecv"`
		Keepalives    int `json:"keepalivesRecv"`
		Refreshes     int `json:"routeRefreshRecv"`
	} `json:"messageStats"`
}

// birdCounts are the lines in which BIRD shows whether a session is up, and how many routes it
// was sent over it; birdChanges those in its log about each session that came or went.
var (
	birdCounts  = regexp.MustCompile(`(?m)^us\d .* (up|start) |^ +BGP state:.*$|^ +Import (updates|withdraws):.*$`)
	birdChanges = regexp.MustCompile(`us\d: (State changed|BGP session)`)
)

// counted is all that a router has counted of its sessions with us, but for KEEPALIVEs,
// and the KEEPALIVEs of all sessions.
func (r *router) counted() (counts string, keepalives int) {
	r.t.Helper()
	if strings.Contains(r.ask("show status"), "BIRD") {
		log, err := os.ReadFile(filepath.Join(r.dir, "bird.out"))
		must(r.t, err)
		lines := birdCounts.FindAllString(r.ask("show protocols all"), -1)
		return fmt.Sprintf("%d changes of sessions\n%s\n", len(birdChanges.FindAll(log, -1)), strings.Join(lines, "\n")), 0
	}
	var all map[string]frrNeighbour
	must(r.t, json.Unmarshal([]byte(r.ask("show bgp neighbors json")), &all))
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := all[name]
		keepalives += n.Messages.Keepalives
		n.Messages.Keepalives = 0
		fmt.Fprintf(&text, "%s: %+v\n", name, n)
	}
	return text.String(), keepalives
}

// resetting are routers that end each of their sessions after so long, in every way there is.
type resetting struct {
	restless
	with []SessionConfig
}

// newResetting starts such routers in a network of their own.
func newResetting(t *testing.T, net byte, lives time.Duration) *resetting {
	own := &resetting{restless: restless{lives: lives}}
	own.until.Store(1 << 60)
	for i, end := range waysToEnd {
		a := netip.AddrFrom4([4]byte{127, 0, net, byte(i + 1)})
		own.at(t, a, end)
		s := sessionTo(a.String())
		s.Local, s.Port, s.Families.IPv6 = netip.MustParseAddr("127.0.0.1"), 179, false
		own.with = append(own.with, plan(s, hundred("203.0.113.%d/32")...))
	}
	return own
}

// TestAnHonestRouterNeverNoticesOthersThatReset; for an hour: -beside 1h -test.timeout 70m.
// Each of FRR and BIRD is beside routers that reset at once and are left alone for longer each
// time, beside others whose sessions live just long enough for that not to count any more, and
// beside others that are never left alone.
func TestAnHonestRouterNeverNoticesOthersThatReset(t *testing.T) {
	for name, dialect := range dialects {
		for how, lives := range map[string][]time.Duration{
			"left alone meanwhile": {0, steady + time.Second},
			"never left alone":     {time.Second},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				own := &untouched{router: dialect.start(newRouter(t), neighbour{lines: dialect.lines})}
				speaker := newSpeaker(t)
				speaker.undamped = how == "never left alone"
				honest := []SessionConfig{plan(own.session4(), hundred("203.0.113.%d/32")...), plan(own.session6(), hundred("2001:db8:113::%x/128")...)}
				must(t, speaker.Set(t.Context(), configOf(honest...)))
				own.count(15*time.Second, 200)
				own.s = speaker
				isUp(t, speaker, 10*time.Second)
				own.lost, own.was = own.watch(), own.story()
				var all []*resetting
				sessions := honest
				for i, life := range lives {
					x := newResetting(t, byte(100+4*own.n+i), life)
					all, sessions = append(all, x), append(sessions, x.with...)
				}
				must(t, speaker.Set(t.Context(), configOf(sessions...)))
				before, earlier := own.counted()
				begin := time.Now()
				never(t, *beside, "the honest router noticed", func() (bool, string) {
					now, _ := own.counted()
					time.Sleep(time.Second)
					return now != before || own.lost() > 0, fmt.Sprintf("%d routes lost; it counted\n%s\nand now\n%s", own.lost(), before, now)
				})
				own.check()
				_, now := own.counted()
				if least := 2 * int(time.Since(begin)/(4*time.Second)); name == "frr" && now-earlier < least {
					t.Errorf("the router counted %d KEEPALIVEs in %v, want %d", now-earlier, time.Since(begin), least)
				}
				for i, x := range all {
					n := x.ended.Load()
					t.Logf("beside %d resets by routers whose sessions live for %v; %v", n, lives[i], used())
					if n < int64(len(waysToEnd)) {
						t.Errorf("only %d resets", n)
					}
				}
				t.Logf("in %v it counted %d KEEPALIVEs, and still\n%s", time.Since(begin), now-earlier, before)
			})
		}
	}
}
