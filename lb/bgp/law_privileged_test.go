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

// birdRIB is what BIRD holds: the attributes by prefix.
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

// randomSession is a session that announces any of a few prefixes with any attributes.
func randomSession(r *rand.Rand, s inventory.Session) SessionConfig {
	a := netip.MustParseAddr("203.0.113.10")
	if s.RouterAddr.Is6() {
		a = netip.MustParseAddr("2001:db8:113::10")
	}
	var ads []advertise.Advertisement
	for range 8 {
		a = a.Next()
		ad := advertise.Advertisement{Prefix: netip.PrefixFrom(a, a.BitLen()), Prepend: uint8(r.IntN(2)), LocalPref: r.Uint32N(2)}
		var cs []inventory.Community
		for _, c := range []inventory.Community{{Global: 65010, Local1: 100}, inventory.GracefulShutdown, {Large: true, Global: 65010, Local1: 1, Local2: 7}} {
			if r.IntN(3) == 0 {
				cs = append(cs, c)
			}
		}
		ad.Communities = inventory.CommunitiesOf(cs...)
		if r.IntN(3) == 0 {
			ad.NextHop = eleventhOf(s.Local)
		}
		if r.IntN(3) > 0 {
			ads = append(ads, ad)
		}
	}
	return SessionConfig{SessionPlan: advertise.SessionPlan{Session: s, Advertisements: sorted.Of(ads...)}}
}

// wanted is what BIRD is to hold of a Config.
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
func changes(was, is Config) (n uint64) {
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
		n += uint64(len(announced))
	}
	return n
}

// seed is what all is drawn from: 1, or what PLINTH_TEST_SEED says.
func seed(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("PLINTH_TEST_SEED"), "1"), 10, 64)
	must(t, err)
	t.Log("PLINTH_TEST_SEED", n)
	return n
}

// Whatever was set before, a router holds what the last Config says and nothing else,
// and receives each difference once.
func TestARouterHoldsWhatWasSetLastWhateverWasSetBefore(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(seed(t), 0))
	r := newRouter(t).bird(neighbour{})
	s := speaker(t)
	both := []inventory.Session{r.session4(), r.session6()}
	var c Config
	for _, sessions := range [][]inventory.Session{both, both[1:], both, both[:1], nil, both} {
		var most, before uint64
		for step := range 15 {
			last := c
			c = config()
			for _, s := range sessions {
				c.Sessions = append(c.Sessions, randomSession(draw, s))
			}
			must(t, s.Set(t.Context(), c))
			must(t, s.Set(t.Context(), c))
			want := wanted(c)
			eventually(t, 10*time.Second, fmt.Sprint("BIRD holds ", want), func() (bool, string) {
				got := r.birdRIB()
				return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got)
			})
			if step == 0 {
				if len(sessions) > 0 {
					isUp(t, s, 10*time.Second)
				}
				before = sent(t, s)
			} else {
				most += changes(last, c)
			}
		}
		if n := sent(t, s) - before; n > most {
			t.Errorf("%d UPDATE messages for %d differences", n, most)
		}
	}
	held := r.birdRIB()
	must(t, s.Stop(t.Context(), "another follows"))
	fresh := speaker(t)
	must(t, fresh.Set(t.Context(), c))
	eventually(t, 10*time.Second, fmt.Sprint("of a fresh speaker BIRD holds ", held), func() (bool, string) {
		got := r.birdRIB()
		return fmt.Sprint(got) == fmt.Sprint(held), fmt.Sprint(got)
	})
}
