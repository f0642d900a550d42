//go:build privileged

package bgp

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// birdRIB returns the attributes in BIRD's tables, by prefix.
func (r *router) birdRIB() map[string]string {
	rib, prefix := map[string]string{}, ""
	for line := range strings.Lines(r.ask("show route all")) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch first, _, _ := strings.Cut(line, " "); {
		case strings.Contains(first, "/"):
			prefix = first
		case field == "BGP.next_hop":
			value, _, _ = strings.Cut(value, " ") // a link-local one may follow
			fallthrough
		case field == "BGP.as_path", field == "BGP.community", field == "BGP.large_community":
			rib[prefix] += strings.TrimPrefix(field, "BGP.") + " " + value + "; "
		}
	}
	return rib
}

// randomSession returns a session that announces any of a few prefixes with any attributes.
func randomSession(rng *rand.Rand, session inventory.Session) SessionConfig {
	addr := netip.MustParseAddr("203.0.113.10")
	if session.RouterAddr.Is6() {
		addr = netip.MustParseAddr("2001:db8:113::10")
	}
	var ads []advertise.Advertisement
	for range 8 {
		addr = addr.Next()
		ad := advertise.Advertisement{Prefix: netip.PrefixFrom(addr, addr.BitLen()), Prepend: uint8(rng.IntN(2)), LocalPref: rng.Uint32N(2)}
		var cs []inventory.Community
		for _, c := range []inventory.Community{{Global: 65010, Local1: 100}, inventory.GracefulShutdown, {Large: true, Global: 65010, Local1: 1, Local2: 7}} {
			if rng.IntN(3) == 0 {
				cs = append(cs, c)
			}
		}
		ad.Communities = inventory.CommunitiesOf(cs...)
		if rng.IntN(3) == 0 {
			ad.NextHop = eleventhOf(session.Local)
		}
		if rng.IntN(3) > 0 {
			ads = append(ads, ad)
		}
	}
	return SessionConfig{SessionPlan: advertise.SessionPlan{Session: session, Advertisements: sorted.Of(ads...)}}
}

// wanted returns the routes of a Config as BIRD has them.
func wanted(c Config) map[string]string {
	rib := map[string]string{}
	for _, s := range c.Sessions {
		for ad := range s.Advertisements.All() {
			hop := ad.NextHop
			if !hop.IsValid() {
				hop = s.Session.Local
			}
			text := fmt.Sprintf("as_path %s; next_hop %v; ", strings.TrimSpace(strings.Repeat("65010 ", 1+int(ad.Prepend))), hop)
			var standard, large []string
			for c := range ad.Communities.All() {
				if c.Large {
					large = append(large, fmt.Sprintf("(%d, %d, %d)", c.Global, c.Local1, c.Local2))
				} else {
					standard = append(standard, fmt.Sprintf("(%d,%d)", c.Global, c.Local1))
				}
			}
			if len(standard) > 0 {
				text += "community " + strings.Join(standard, " ") + "; "
			}
			if len(large) > 0 {
				text += "large_community " + strings.Join(large, " ") + "; "
			}
			rib[ad.Prefix.String()] = text
		}
	}
	return rib
}

// changes is how many prefixes of the sessions that stay have to be announced for one
// Config after another.
func changes(was, is Config) (count uint64) {
	for _, s := range is.Sessions {
		i := slices.IndexFunc(was.Sessions, func(o SessionConfig) bool { return o.Session == s.Session })
		if i < 0 {
			continue
		}
		gone, put := sorted.Diff(was.Sessions[i].Advertisements, s.Advertisements)
		announced := map[netip.Prefix]bool{}
		for _, ad := range slices.Concat(gone, put) {
			announced[ad.Prefix] = true
		}
		count += uint64(len(announced))
	}
	return count
}

// seed is that of all random choices: 1, or PLINTH_TEST_SEED.
func seed(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("PLINTH_TEST_SEED"), "1"), 10, 64)
	must(t, err)
	t.Log("PLINTH_TEST_SEED", n)
	return n
}

// Whatever was set before, a router holds the routes of the last Config and nothing else,
// and receives each difference once.
func TestARouterHoldsWhatWasSetLastWhateverWasSetBefore(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(seed(t), 0))
	router := newRouter(t).bird(neighbour{})
	speaker := newSpeaker(t)
	both := []inventory.Session{router.session4(), router.session6()}
	var config Config
	for _, sessions := range [][]inventory.Session{both, both[1:], both, both[:1], nil, both} {
		var most, before uint64
		for step := range 15 {
			last := config
			config = configOf()
			for _, s := range sessions {
				config.Sessions = append(config.Sessions, randomSession(draw, s))
			}
			must(t, speaker.Set(t.Context(), config))
			must(t, speaker.Set(t.Context(), config))
			want := wanted(config)
			eventually(t, 10*time.Second, fmt.Sprint("BIRD holds ", want), func() (bool, string) {
				got := router.birdRIB()
				return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got)
			})
			if step == 0 {
				if len(sessions) > 0 {
					isUp(t, speaker, 10*time.Second)
				}
				before = sent(t, speaker)
			} else {
				most += changes(last, config)
			}
		}
		if n := sent(t, speaker) - before; n > most {
			t.Errorf("%d UPDATE messages for %d differences", n, most)
		}
	}
	held := router.birdRIB()
	must(t, speaker.Stop(t.Context(), "another follows"))
	fresh := newSpeaker(t)
	must(t, fresh.Set(t.Context(), config))
	eventually(t, 10*time.Second, fmt.Sprint("of a fresh speaker BIRD holds ", held), func() (bool, string) {
		got := router.birdRIB()
		return fmt.Sprint(got) == fmt.Sprint(held), fmt.Sprint(got)
	})
}
