//go:build privileged

package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
)

// sent counts the UPDATE messages that a speaker has sent so far.
func sent(t testing.TB, s *Speaker) (n uint64) {
	t.Helper()
	for _, st := range s.State(t.Context()) {
		n += st.UpdatesSent
	}
	return n
}

func TestSettingTheSameTwiceSendsNothing(t *testing.T) {
	router := newRouter(t).bird(neighbour{})
	speaker := newSpeaker(t)
	config := configOf(plan(router.session4(), "203.0.113.10/32", "203.0.113.11/32"), plan(router.session6(), "2001:db8:113::10/128"))
	must(t, speaker.Set(t.Context(), config))
	isUp(t, speaker, 10*time.Second)
	router.holds(5*time.Second, map[string]string{"203.0.113.10": router.Local4.String(), "203.0.113.11": router.Local4.String(), "2001:db8:113::10": router.Local6.String()})
	before := sent(t, speaker)
	for range 20 {
		must(t, speaker.Set(t.Context(), config))
	}
	never(t, time.Second, "an UPDATE went out", func() (bool, string) { return sent(t, speaker) != before, "" })

	must(t, speaker.Set(t.Context(), configOf(plan(router.session4(), "203.0.113.11/32", "203.0.113.12/32"), plan(router.session6(), "2001:db8:113::10/128"))))
	router.holds(5*time.Second, map[string]string{"203.0.113.11": router.Local4.String(), "203.0.113.12": router.Local4.String(), "2001:db8:113::10": router.Local6.String()})
	if n := sent(t, speaker) - before; n != 2 && n != 1 {
		t.Errorf("one prefix more and one less took %d UPDATE messages", n)
	}
}

// ribOut lists GoBGP's own adj-RIB-out of the only session.
func ribOut(t testing.TB, s *Speaker) (ps []netip.Prefix) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		must(t, x.do(t.Context(), func() error {
			for _, f := range []gobgp.Family{gobgp.RF_IPv4_UC, gobgp.RF_IPv6_UC} {
				if err := x.server.bgp.ListPath(apiutil.ListPathRequest{
					TableType: api.TableType_TABLE_TYPE_ADJ_OUT, Name: x.key.Addr.String(), Family: f,
				}, func(nlri gobgp.NLRI, _ []*apiutil.Path) { ps = append(ps, netip.MustParsePrefix(nlri.String())) }); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	slices.SortFunc(ps, netip.Prefix.Compare)
	return ps
}

func TestWhatIsReportedAsAnnouncedIsInTheAdjRIBOut(t *testing.T) {
	tests := []struct {
		name   string
		router neighbour
		want   string
	}{
		{"a router of both families", neighbour{only4: true}, "[203.0.113.10/32 203.0.113.11/32 2001:db8:113::10/128]"},
		{"a router that takes IPv4 alone", neighbour{}, "[203.0.113.10/32 203.0.113.11/32]"},
	}
	for _, tt := range tests {
		for dialect, d := range dialects {
			t.Run(tt.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				router := d.start(newRouter(t), tt.router)
				speaker := newSpeaker(t)
				must(t, speaker.Set(t.Context(), configOf(plan(router.both4(), "203.0.113.11/32", "2001:db8:113::10/128", "203.0.113.10/32"))))
				isUp(t, speaker, 10*time.Second)
				if got := fmt.Sprint(speaker.State(t.Context())[0].Announced); got != tt.want {
					t.Errorf("announced %v, want %v", got, tt.want)
				}
				if got := fmt.Sprint(ribOut(t, speaker)); got != tt.want {
					t.Errorf("in the adj-RIB-out %v, want %v", got, tt.want)
				}
				must(t, speaker.Set(t.Context(), configOf(plan(router.both4(), "203.0.113.9/32"))))
				if a, b := fmt.Sprint(speaker.State(t.Context())[0].Announced), fmt.Sprint(ribOut(t, speaker)); a != b || a != "[203.0.113.9/32]" {
					t.Errorf("announced %v, in the adj-RIB-out %v", a, b)
				}
			})
		}
	}
}

func TestAChangeOfOneSessionLeavesTheOthersAlone(t *testing.T) {
	router, other := newRouter(t).frr(neighbour{}), newRouter(t).bird(neighbour{})
	speaker := newSpeaker(t)
	one, two := plan(router.session4(), "203.0.113.10/32"), plan(other.session4(), "203.0.113.10/32")
	must(t, speaker.Set(t.Context(), configOf(one, two)))
	isUp(t, speaker, 10*time.Second)
	other.holds(5*time.Second, map[string]string{"203.0.113.10": other.Local4.String()})
	lost := other.watch()
	since := func(k inventory.Session) (time.Time, uint64) {
		for _, st := range speaker.State(t.Context()) {
			if st.Addr == k.RouterAddr {
				return st.Since, st.UpdatesSent
			}
		}
		t.Fatal("no such session")
		return time.Time{}, 0
	}
	up, updates := since(two.Session)

	one.Session.HoldTime = 6 * time.Second
	must(t, speaker.Set(t.Context(), configOf(one, two)))
	isUp(t, speaker, 10*time.Second)
	must(t, speaker.Set(t.Context(), configOf(two)))
	router.holds(5*time.Second, map[string]string{})
	must(t, speaker.Set(t.Context(), configOf(one, two)))
	isUp(t, speaker, 10*time.Second)
	if now, n := since(two.Session); now != up || n != updates {
		t.Errorf("the other session was up since %v with %d UPDATE messages, now since %v with %d", up, updates, now, n)
	}
	if n := lost(); n != 0 {
		t.Errorf("the other router lost %d routes", n)
	}
}

func TestWhatIsNotAgreedOnNeverResetsASession(t *testing.T) {
	t.Parallel()
	router := newRouter(t).frr(neighbour{password: "s3cret"})
	speaker := newSpeaker(t)
	set := func(change func(*SessionConfig), prefixes ...string) {
		t.Helper()
		c := plan(router.session4(), prefixes...)
		password("s3cret")(&c)
		change(&c)
		must(t, speaker.Set(t.Context(), configOf(c)))
		want := map[string]string{}
		for _, p := range prefixes {
			want[strings.TrimSuffix(p, "/32")] = router.Local4.String()
		}
		router.holds(10*time.Second, want)
	}
	same := func(*SessionConfig) {}
	set(same, "203.0.113.10/32")
	up := state(t, speaker, router).Since
	for name, change := range map[string]func(*SessionConfig){
		"pod CIDRs":                          func(c *SessionConfig) { c.Session.PodCIDRs = true },
		"the Secret's name":                  func(c *SessionConfig) { c.Session.Password.Secret = "another" },
		"an address of the machine":          func(c *SessionConfig) { c.Session.NextHop6 = netip.Addr{} },
		"the name of a profile":              func(c *SessionConfig) { c.Session.BFD.Name = "other" },
		"a next hop of the session's family": func(c *SessionConfig) { c.Session.NextHop4 = c.Session.NextHop4.Next() },
	} {
		set(change, "203.0.113.10/32")
		if st := state(t, speaker, router); st.Since != up || st.Losses != 0 {
			t.Errorf("after %s changed: %v", name, st)
		}
	}
	set(same)
	set(same, "203.0.113.10/32", "203.0.113.0/25")
	set(same, "203.0.113.99/32")
	if st := state(t, speaker, router); st.Since != up || st.Losses != 0 {
		t.Errorf("the session was up since %v, now %v", up, st)
	}
}

// TestARouterThatHasAnotherNameKeepsItsSession, and what is announced over it.
func TestARouterThatHasAnotherNameKeepsItsSession(t *testing.T) {
	router := newRouter(t).bird(neighbour{})
	speaker := newSpeaker(t)
	named := func(name string, vips ...string) Config {
		session := router.session4()
		session.Router = name
		return configOf(plan(session, vips...))
	}
	must(t, speaker.Set(t.Context(), named("tor-a", "203.0.113.10/32")))
	isUp(t, speaker, 10*time.Second)
	was := speaker.State(t.Context())[0]
	must(t, speaker.Set(t.Context(), named("tor-b", "203.0.113.10/32", "203.0.113.11/32")))
	router.holds(5*time.Second, map[string]string{"203.0.113.10": router.Local4.String(), "203.0.113.11": router.Local4.String()})
	now := speaker.State(t.Context())
	if len(now) != 1 || now[0].Router != "tor-b" || !now[0].Since.Equal(was.Since) || now[0].Losses != was.Losses {
		t.Errorf("the session was %+v, and those now are %+v", was, now)
	}
	must(t, speaker.Set(t.Context(), named("tor-c")))
	router.holds(5*time.Second, nil)
	if now := speaker.State(t.Context()); len(now) != 1 || now[0].Router != "tor-c" || !now[0].Since.Equal(was.Since) {
		t.Errorf("the session was %+v, and those now are %+v", was, now)
	}
}
