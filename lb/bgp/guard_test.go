package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// sessionTo returns a session of a machine of both families with a router's address.
func sessionTo(router string) inventory.Session {
	return inventory.Session{
		Router: "tor1", RouterAddr: netip.MustParseAddr(router), Port: 179, LocalASN: 65010, RouterASN: 65101,
		Families: inventory.Families{IPv4: true, IPv6: true}, HoldTime: 9 * time.Second, RestartTime: time.Minute,
		Local: netip.MustParseAddr("10.10.1.11"), NextHop4: netip.MustParseAddr("10.10.1.11"), NextHop6: netip.MustParseAddr("2001:db8:10:1::b"),
	}
}

// boundsOf returns the limits of some sessions.
func boundsOf(within []netip.Prefix, sessions ...inventory.Session) bounds {
	c := Config{Within: within}
	for _, s := range sessions {
		c.Sessions = append(c.Sessions, SessionConfig{SessionPlan: advertise.SessionPlan{Session: s}})
	}
	return c.bounds()
}

// announcing returns a session with some advertisements.
func announcing(s inventory.Session, ads ...advertise.Advertisement) SessionConfig {
	return SessionConfig{SessionPlan: advertise.SessionPlan{Session: s, Advertisements: sorted.Of(ads...)}}
}

// advertisement returns an advertisement without attributes.
func advertisement(prefix string) advertise.Advertisement {
	return advertise.Advertisement{Prefix: netip.MustParsePrefix(prefix)}
}

func TestNothingLeavesThatTheGuardDoesNotKnow(t *testing.T) {
	within := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25"), netip.MustParsePrefix("2001:db8:113::/112"), netip.MustParsePrefix("10.10.0.0/16")}
	other := sessionTo("10.10.1.2")
	only4 := sessionTo("10.10.1.1")
	only4.Families.IPv6 = false
	alone := sessionTo("10.10.1.1")
	alone.NextHop6 = netip.Addr{}
	tests := []struct {
		name    string
		session inventory.Session
		prefix  netip.Prefix
		want    string // part of the error; empty: it may leave
		reason  Reason
	}{
		{"a VIP", sessionTo("10.10.1.1"), netip.MustParsePrefix("203.0.113.10/32"), "", ""},
		{"an aggregate", sessionTo("10.10.1.1"), netip.MustParsePrefix("203.0.113.0/26"), "", ""},
		{"a whole pool", sessionTo("10.10.1.1"), netip.MustParsePrefix("203.0.113.0/25"), "", ""},
		{"more than the pool", sessionTo("10.10.1.1"), netip.MustParsePrefix("203.0.113.0/24"), "outside every pool", OutsidePoolsAndPods},
		{"somebody else's address", sessionTo("10.10.1.1"), netip.MustParsePrefix("8.8.8.8/32"), "outside every pool", OutsidePoolsAndPods},
		{"a default route", sessionTo("10.10.1.1"), netip.MustParsePrefix("0.0.0.0/0"), "default route", PrefixInvalid},
		{"a default route of IPv6", sessionTo("10.10.1.1"), netip.MustParsePrefix("::/0"), "default route", PrefixInvalid},
		{"half of the Internet", sessionTo("10.10.1.1"), netip.MustParsePrefix("128.0.0.0/1"), "outside every pool", OutsidePoolsAndPods},
		{"loopback", sessionTo("10.10.1.1"), netip.MustParsePrefix("127.0.0.0/8"), "not unicast", PrefixInvalid},
		{"multicast", sessionTo("10.10.1.1"), netip.MustParsePrefix("224.0.0.0/4"), "not unicast", PrefixInvalid},
		{"link-local", sessionTo("10.10.1.1"), netip.MustParsePrefix("fe80::/64"), "not unicast", PrefixInvalid},
		{"no prefix at all", sessionTo("10.10.1.1"), netip.Prefix{}, "canonical", PrefixInvalid},
		{"a prefix with host bits", sessionTo("10.10.1.1"), netip.MustParsePrefix("203.0.113.10/25"), "canonical", PrefixInvalid},
		{"IPv4 in the clothes of IPv6", sessionTo("10.10.1.1"), netip.MustParsePrefix("::ffff:203.0.113.10/128"), "canonical", PrefixInvalid},
		{"the router's own address", sessionTo("10.10.1.1"), netip.MustParsePrefix("10.10.1.1/32"), "an address of a session's end", CoversSessionEnd},
		{"the router's own subnet", sessionTo("10.10.1.1"), netip.MustParsePrefix("10.10.1.0/26"), "an address of a session's end", CoversSessionEnd},
		{"the machine's own address", sessionTo("10.10.1.1"), netip.MustParsePrefix("10.10.1.11/32"), "an address of a session's end", CoversSessionEnd},
		{"an address of another session's router", sessionTo("10.10.1.1"), netip.MustParsePrefix("10.10.1.2/32"), "an address of a session's end", CoversSessionEnd},
		{"a family that the session does not carry", only4, netip.MustParsePrefix("2001:db8:113::10/128"), "does not carry", lb.SessionLacksFamily},
		{"IPv6 from a machine without an IPv6 address", alone, netip.MustParsePrefix("2001:db8:113::10/128"), "no IPv6 address", NextHopUnusable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good, withheld := new(guard).filter(announcing(tt.session, advertise.Advertisement{Prefix: tt.prefix}), boundsOf(within, tt.session, other))
			err := withheld.err()
			if leaves := good.Len() == 1; leaves != (tt.want == "") {
				t.Fatalf("leaves: %v, error: %v", leaves, err)
			}
			if tt.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if tt.want != "" && (withheld.count != 1 || withheld.first[0].Reason != tt.reason || withheld.first[0].Prefix != tt.prefix) {
				t.Errorf("withheld: %+v, want %v for %s", withheld, tt.prefix, tt.reason)
			}
		})
	}
}

func TestTheGuardLetsTheGoodOnesThroughBesideTheBad(t *testing.T) {
	c := announcing(sessionTo("10.10.1.1"), advertisement("203.0.113.11/32"), advertisement("127.0.0.1/32"), advertisement("203.0.113.9/32"))
	good, withheld := new(guard).filter(c, bounds{})
	err := withheld.err()
	if !good.Equal(sorted.Of(advertisement("203.0.113.9/32"), advertisement("203.0.113.11/32"))) {
		t.Errorf("got %v", good)
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1/32") || strings.Contains(err.Error(), "203.0.113") {
		t.Errorf("error %v", err)
	}
}

// TestTheGuardSaysTheSameOfAChangeAsOfTheWhole is the law by which the guard checks changed advertisements
// alone.
func TestTheGuardSaysTheSameOfAChangeAsOfTheWhole(t *testing.T) {
	prefixes := []string{"203.0.113.9/32", "203.0.113.10/32", "203.0.113.99/32", "203.0.113.0/26", "127.0.0.1/32", "10.10.1.1/32", "0.0.0.0/0", "2001:db8:113::10/128"}
	hops := []netip.Addr{{}, netip.MustParseAddr("10.10.9.9"), netip.MustParseAddr("2001:db8::9")}
	only4 := sessionTo("10.10.1.1")
	only4.Families.IPv6 = false
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) advertise.Advertisement {
			return advertise.Advertisement{Prefix: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "prefix")), NextHop: rapid.SampledFrom(hops).Draw(t, "next hop")}
		})
		var checked guard
		config := announcing(sessionTo("10.10.1.1"))
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			config.Session = rapid.SampledFrom([]inventory.Session{config.Session, sessionTo("10.10.1.1"), only4}).Draw(t, "session")
			limits := rapid.SampledFrom([]bounds{{}, {within: []netip.Prefix{}}, {within: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/27")}}}).Draw(t, "bounds")
			config.Advertisements = config.Advertisements.Edit(rapid.SliceOfN(one, 0, 3).Draw(t, "gone"), rapid.SliceOfN(one, 0, 3).Draw(t, "put"))
			got, withheld := checked.filter(config, limits)
			want, wantWithheld := new(guard).filter(config, limits)
			if !got.Equal(want) || fmt.Sprint(withheld) != fmt.Sprint(wantWithheld) {
				t.Fatalf("got %v, %v, want %v, %v", got, withheld, want, wantWithheld)
			}
			for ad := range got.All() {
				if _, err := limits.check(config.Session, ad); err != nil {
					t.Fatalf("%v leaves: %v", ad, err)
				}
			}
		}
	})
}

// TestEachKindOfWhatIsWithheldIsTold, whatever comes first among the refusals that are shown.
func TestEachKindOfWhatIsWithheldIsTold(t *testing.T) {
	var guarded, excluded withheld
	for range 2 * refusalsShown {
		guarded.add(Refusal{netip.MustParsePrefix("203.0.113.1/32"), CoversSessionEnd, ""})
		excluded.add(Refusal{netip.MustParsePrefix("203.0.113.2/32"), NextHopNotNegotiated, ""})
	}
	guarded.add(Refusal{netip.Prefix{}, PrefixInvalid, ""})
	excluded.add(Refusal{netip.MustParsePrefix("2001:db8::1/128"), FamilyNotNegotiated, ""})
	excluded.add(Refusal{netip.MustParsePrefix("203.0.113.3/32"), CoversSessionEnd, ""})
	both := guarded.and(excluded)
	want := []Withheld{{CoversSessionEnd, lb.IPv4}, {PrefixInvalid, lb.NoFamily}, {NextHopNotNegotiated, lb.IPv4}, {FamilyNotNegotiated, lb.IPv6}}
	if !slices.Equal(both.kinds, want) || both.count != 4*refusalsShown+3 || len(both.first) != refusalsShown {
		t.Errorf("%d are withheld, %d shown: %+v", both.count, len(both.first), both.kinds)
	}
	var all []bool
	for _, kind := range both.kinds {
		all = append(all, kind.All())
	}
	if !slices.Equal(all, []bool{false, false, true, true}) {
		t.Errorf("whole families are withheld: %v of %+v", all, both.kinds)
	}
}

func TestASessionSaysAtMostSoManyPrefixes(t *testing.T) {
	var ads []advertise.Advertisement
	a := netip.MustParseAddr("2001:db8:113::")
	for range maxAdvertisements + 7 {
		ads = append(ads, advertise.Advertisement{Prefix: netip.PrefixFrom(a, 128)})
		a = a.Next()
	}
	c := announcing(sessionTo("10.10.1.1"), ads...)
	good, withheld := new(guard).filter(c, bounds{})
	if good.Len() != maxAdvertisements || !errors.Is(withheld.err(), ErrRefused) || withheld.count != 7 || withheld.first[0].Reason != TooManyPrefixes {
		t.Errorf("%d go through, withheld: %+v", good.Len(), withheld)
	}
	good, withheld = new(guard).filter(c, bounds{within: []netip.Prefix{}})
	if good.Len() != 0 || withheld.count != len(ads) || len(withheld.first) != refusalsShown {
		t.Errorf("with nothing allowed %d go through, %d are withheld, %d shown", good.Len(), withheld.count, len(withheld.first))
	}
	if text, want := withheld.err().Error(), fmt.Sprintf("%d more", len(ads)-refusalsShown); strings.Count(text, "\n") != refusalsShown || !strings.Contains(text, want) {
		t.Errorf("the error does not have %q:\n%s", want, text)
	}
}

func TestTheStateOfASessionSaysWhatIsKeptBack(t *testing.T) {
	config := announcing(sessionTo("127.0.0.1"), advertisement("203.0.113.11/32"), advertisement("0.0.0.0/0"))
	config.Session.Password = inventory.SecretKey{Secret: "bgp", Key: "tor"} // which it lacks: it is never up
	speaker := NewSpeaker(Options{})
	t.Cleanup(func() { _ = speaker.Leave(t.Context()) })
	set := func() SessionState {
		t.Helper()
		err := speaker.Set(t.Context(), Config{RouterID: netip.MustParseAddr("10.10.1.11"), Sessions: []SessionConfig{config}})
		if !errors.Is(err, ErrPasswordMissing) {
			t.Fatal(err)
		}
		return speaker.State(t.Context())[0]
	}
	if st := set(); st.Refused != 1 || len(st.Refusals) != 1 || st.Refusals[0] != (Refusal{netip.MustParsePrefix("0.0.0.0/0"), PrefixInvalid, "it is a default route"}) {
		t.Errorf("state %+v", st)
	}
	config.Advertisements = sorted.Of(advertisement("203.0.113.11/32"))
	if st := set(); st.Refused != 0 || len(st.Refusals) != 0 {
		t.Errorf("after all is well: %+v", st)
	}
}

func TestANextHopIsAlwaysOneThatTheRouterCanReach(t *testing.T) {
	without4 := sessionTo("2001:db8:10:1::1")
	without4.NextHop4 = netip.Addr{}
	explicit := advertisement("203.0.113.10/32")
	explicit.NextHop = netip.MustParseAddr("10.10.9.9")
	tests := []struct {
		name    string
		session inventory.Session
		ad      advertise.Advertisement
		want    string
	}{
		{"IPv4 over IPv4: the session's own", sessionTo("10.10.1.1"), advertisement("203.0.113.10/32"), "0.0.0.0"},
		{"IPv6 over IPv6: the session's own", sessionTo("2001:db8:10:1::1"), advertisement("2001:db8:113::10/128"), "::"},
		{"IPv6 over IPv4: the machine's IPv6 address", sessionTo("10.10.1.1"), advertisement("2001:db8:113::10/128"), "2001:db8:10:1::b"},
		{"IPv4 over IPv6: the machine's IPv4 address", sessionTo("2001:db8:10:1::1"), advertisement("203.0.113.10/32"), "10.10.1.11"},
		{"IPv4 over IPv6 without one: the session's own (RFC 8950)", without4, advertisement("203.0.113.10/32"), "::"},
		{"one that was asked for", sessionTo("10.10.1.1"), explicit, "10.10.9.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := nextHop(tt.session, tt.ad); err != nil || got.String() != tt.want {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestWhatWasLetThroughIsLookedAtAgainUnderOtherTerms(t *testing.T) {
	var checked guard
	wide := bounds{within: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
	narrow := bounds{within: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}}
	config := announcing(sessionTo("10.10.1.1"), advertisement("203.0.113.9/32"), advertisement("203.0.113.99/32"))
	for range 2 {
		if good, withheld := checked.filter(config, wide); good.Len() != 2 || withheld.count > 0 {
			t.Fatal(good, withheld)
		}
	}
	if good, withheld := checked.filter(config, narrow); good.Len() != 1 || withheld.count != 1 {
		t.Errorf("in narrower bounds %v go through, withheld: %v", good, withheld)
	}
	config.Session.RouterAddr = netip.MustParseAddr("2001:db8::1") // which carries no IPv4 without a next hop of its own
	config.Session.Families = inventory.Families{IPv6: true}
	if good, withheld := checked.filter(config, wide); good.Len() != 0 || withheld.count != 2 {
		t.Errorf("over a session of IPv6 %v go through, withheld: %v", good, withheld)
	}
}
