package lb

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// newer is what an agent says of an accepted inventory that a newer version stored.
const newer = `configmap plinth-accepted is of format "9", written by a newer version, and this program reads formats up to 1: upgrade it, or set the object back as docs/reference/skew.md says`

// wellCounted are counts where all is well.
var wellCounted = Counts{Counted: true, Routes: 8, RoutesWanted: 8, Sessions: 2, SessionsWanted: 2}

// messages are those that agents have written, as they are to be read.
var messages = []struct {
	message string
	want    Report
}{
	{"routes 8/8, sessions 2/2", Report{Counts: wellCounted}},
	{"routes 7/8, sessions 0/3: a/10.0.0.1 ASNMismatch, b/10.0.0.2 NoAnswer, b/fe80::2%eth0 Refused", Report{Counts: Counts{
		Counted: true, Routes: 7, RoutesWanted: 8, SessionsWanted: 3, Down: []DownSession{{"a", "10.0.0.1", "ASNMismatch"}, {"b", "10.0.0.2", "NoAnswer"}, {"b", "fe80::2%eth0", "Refused"}},
	}}},
	{"routes 0/0, sessions 0/12: tor.r1/10.0.0.11 NoAnswer, and 11 more", Report{Counts: Counts{
		Counted: true, SessionsWanted: 12, Down: []DownSession{{"tor.r1", "10.0.0.11", "NoAnswer"}}, MoreDown: 11,
	}}},
	{"routes 0/0, sessions 1/2 with all pod CIDRs: a/10.0.0.1 lacks pod CIDRs", Report{Counts: Counts{
		Counted: true, Sessions: 1, SessionsWanted: 2, LacksPodCIDRs: true, Down: []DownSession{{"a", "10.0.0.1", CauseLacksPodCIDRs}},
	}}},
	{"routes 1/1, sessions 0/1: tor-r1 NoAnswer", Report{Counts: Counts{
		Counted: true, Routes: 1, RoutesWanted: 1, SessionsWanted: 1, Down: []DownSession{{Cause: "tor-r1 NoAnswer"}},
	}}},
	{"routes 8/8, sessions 2/2; " + newer + "; IPAddresses that are not read: 3; the first: ipaddress 192.0.2.1 is of format 2", Report{
		Counts: wellCounted, Unread: Unread{Inventory: newer, Claims: 3, Claim: "ipaddress 192.0.2.1 is of format 2"},
	}},
	{"routes 8/8, sessions 2/2; the new password did not bring up the session with tor-a, tor-b", Report{Counts: wellCounted, Passwords: []string{"tor-a", "tor-b"}}},
	{"routes 8/8, sessions 2/2; on trial 3f2a9c01: tor-a up, tor-b down as before, tor-c down", Report{
		Counts: wellCounted, Trial: TrialReport{"3f2a9c01", map[string]TrialState{"tor-b": TrialDownBefore, "tor-a": TrialUp, "tor-c": TrialDown}},
	}},
	{"routes 8/8, sessions 2/2; on link 192.168.1.0/24 NoCarrier, 192.168.1.200 AddressConflict 02:00:00:00:00:aa; 7 more on links", Report{
		Counts: wellCounted, Links: []LinkProblem{{"192.168.1.0/24", NoCarrier, ""}, {"192.168.1.200", AddressConflict, "02:00:00:00:00:aa"}}, MoreLinks: 7,
	}},
	{"routes 8/8, sessions 2/2; withheld from a/10.0.0.1 FamilyNotNegotiated IPv6, b/fe80::2%eth0 NextHopNotNegotiated IPv4, b/fe80::2%eth0 NextHopUnusable some IPv6, and 2 more", Report{
		Counts: wellCounted, MoreWithheld: 2, Withheld: []Withheld{
			{"a", "10.0.0.1", "FamilyNotNegotiated", IPv6, true}, {"b", "fe80::2%eth0", "NextHopNotNegotiated", IPv4, true}, {"b", "fe80::2%eth0", "NextHopUnusable", IPv6, false},
		},
	}},
	{"routes 8/8, sessions 2/2; ProxyUnhealthy: kube-proxy says that it does not serve", Report{Counts: wellCounted, ProxyRefuses: true}},
	{"routes 8/8, sessions 2/2; ProxyRulesLost: kube-proxy's rules are gone for 3 of 12 VIPs; waiting for the nodes", Report{
		Counts: wellCounted, RulesLost: RulesLost{3, 12}, Waiting: "the nodes",
	}},
	{"routes 8/8, sessions 2/2; kernel settings: net.ipv4.ip_forward is 0 and should be 1, net/ipv4/conf/eth0.100/rp_filter is 1 and should be 2, and 2 more", Report{
		Counts: wellCounted, Settings: []Setting{{"net.ipv4.ip_forward", "0", "1"}, {"net/ipv4/conf/eth0.100/rp_filter", "1", "2"}}, MoreSettings: 2,
	}},
	{"", Report{}},
	{"sessions 0/1; on link 10.1.0.0/24 NoMajority", Report{Head: "sessions 0/1", Links: []LinkProblem{{On: "10.1.0.0/24", Reason: NoMajority}}}},
	{"routes 8/8, sessions 2/2, tunnels 1/1; clock 3 s late; on trial", Report{Head: "routes 8/8, sessions 2/2, tunnels 1/1", Others: []string{"clock 3 s late", "on trial"}}},
}

func TestAMessageIsReadAsItWasWritten(t *testing.T) {
	for _, tt := range messages {
		got := ParseReport(tt.message)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q is read as\n%+v, want\n%+v", tt.message, got, tt.want)
		}
		if again := got.String(); again != tt.message {
			t.Errorf("%q is written again as\n%q", tt.message, again)
		}
	}
}

// What an agent says that this version does not know is shown, and takes nothing away of what it knows.
func TestWhatIsNotKnownIsKeptAsText(t *testing.T) {
	const counts = "routes 8/8, sessions 2/2; "
	for part, want := range map[string]Report{
		"on trial 3f2a9c01":                      {},
		"on trial 3f2a9c01: a up, a down":        {},
		"on trial : a up":                        {},
		"on link":                                {},
		"on link 192.168.1.0/24":                 {},
		"0 more on links":                        {},
		"withheld from a/10.0.0.1":               {},
		"withheld from a/10.0.0.1 X IPv5":        {},
		"withheld from a X IPv6":                 {},
		"withheld from a/1 X IPv6, b/2 X":        {},
		"waiting for ":                           {},
		"kernel settings":                        {},
		"IPAddresses that are not read: many":    {},
		"IPAddresses that are not read: 01":      {},
		proxyPart + " at all":                    {},
		string(ProxyRulesLost) + ": all of them": {},
		RulesLost{0, 12}.String():                {},
		RulesLost{-1, 12}.String():               {},
		"":                                       {},
	} {
		want.Counts, want.Others = wellCounted, []string{part}
		if got := ParseReport(counts + part); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v", part, got)
		}
	}
	twice := ParseReport(counts + "on trial 1: a up; on trial 2: a down; on link x; on link 192.168.1.9 AddressConflict, y, and so on")
	want := Report{
		Counts: wellCounted, Trial: TrialReport{"1", map[string]TrialState{"a": TrialUp}},
		Links: []LinkProblem{{"192.168.1.9", AddressConflict, ""}, {"and", "so", "on"}}, Others: []string{"on trial 2: a down", "on link x", "on link y"},
	}
	if !reflect.DeepEqual(twice, want) {
		t.Errorf("got %+v\nwant %+v", twice, want)
	}
}

// A text that a report quotes may be of an annotation or a file.
func TestATextOfOthersAddsNothingToAReport(t *testing.T) {
	const text = `x is of format "1; on trial 1: tor up; on link 192.168.1.9 AddressConflict", and more`
	for _, r := range []Report{
		{Counts: wellCounted, Unread: Unread{Inventory: "configmap " + text}},
		{Counts: wellCounted, Unread: Unread{Claims: 1, Claim: text}},
		{Counts: wellCounted, Waiting: text},
		{Counts: wellCounted, Passwords: []string{text}},
	} {
		got := ParseReport(r.String())
		if got.Trial.ID != "" || got.Links != nil || got.Others != nil || !strings.Contains(got.String(), `"1, on trial 1: tor up, on link 192.168.1.9 AddressConflict"`) {
			t.Errorf("%+v\nis read as %+v", r, got)
		}
	}
	zone := Report{Counts: Counts{Counted: true, SessionsWanted: 2, Down: []DownSession{{"tor-a", "fe80::1%eth0, tor-b/10.0.0.1 NoAnswer; on trial 1: tor-a up;", "Refused"}}}}
	if got, want := ParseReport(zone.String()).Counts, "routes 0/0, sessions 0/2: tor-a/fe80::1%eth0__tor-b/10.0.0.1_NoAnswer__on_trial_1:_tor-a_up_ Refused"; got.String() != want || len(got.Down) != 1 {
		t.Errorf("of an address whose zone is any text %q is read, want %q", got, want)
	}
}

func TestWhetherASessionIsUp(t *testing.T) {
	for message, want := range map[string]bool{
		"routes 8/8, sessions 0/2":                                                true,
		"routes 8/8, sessions 0/2: a/10.0.0.1 NoAnswer; and more":                 true,
		"routes 8/8, sessions 0/2; and more":                                      true,
		"routes 8/8, sessions 0/0":                                                false,
		"routes 8/8, sessions 1/2":                                                false,
		"routes 8/8, sessions 0/1 with all pod CIDRs: a/10.0.0.1 lacks pod CIDRs": false,
		"routes 8/8, sessions 0/2 of routers":                                     false,
		"sessions 0/2":                                                            false,
		"":                                                                        false,
	} {
		if got := ParseReport(message).NoSessionIsUp(); got == !want {
			t.Errorf("%q: %v", message, got)
		}
	}
}

func TestWhichRoutersAreSaidToBeDown(t *testing.T) {
	for message, want := range map[string]struct {
		routers []string
		more    bool
	}{
		"":                         {nil, true},
		"routes 8/8, sessions 2/2": {},
		"routes 8/8, sessions 0/3: a/10.0.0.1 ASNMismatch, b/10.0.0.2 NoAnswer, b/fd00::2 Refused; on trial 1: a down": {[]string{"a", "b"}, false},
		"routes 8/8, sessions 0/12: tor/10.0.0.11 NoAnswer, and 4 more":                                                {[]string{"tor"}, true},
		"routes 8/8, sessions 0/2: tor/10.0.0.11 NoAnswer, another":                                                    {[]string{"tor"}, true},
		"routes 8/8, sessions 1/2 with all pod CIDRs: a/10.0.0.1 lacks pod CIDRs; kernel settings: x is 1":             {[]string{"a"}, false},
	} {
		if routers, more := ParseReport(message).RoutersDown(); !reflect.DeepEqual(routers, want.routers) || more != want.more {
			t.Errorf("%q: %q, %v", message, routers, more)
		}
	}
}

func TestAReportIsBounded(t *testing.T) {
	var r Report
	var down []DownSession
	var links []LinkProblem
	var settings []Setting
	var withheld []Withheld
	for i := range 200 {
		withheld = append(withheld, Withheld{fmt.Sprintf("tor-%03d", 199-i), "10.0.0.1", "FamilyNotNegotiated", IPv6, true})
		down = append(down, DownSession{Router: fmt.Sprintf("tor-%03d", 199-i), Peer: "10.0.0.1", Cause: "NoAnswer"})
		links = append(links, LinkProblem{On: fmt.Sprintf("10.0.0.%d", i), Reason: AddressConflict})
		settings = append(settings, Setting{Name: fmt.Sprint("a", i), Value: "0", Want: "1"})
	}
	r.NameDown(down)
	r.NameLinks(links)
	r.NameSettings(settings)
	withheld = append(withheld, Withheld{"tor-000", "10.0.0.1", "CoversSessionEnd", IPv4, false})
	r.NameWithheld(withheld)
	if len(r.Withheld) != maxWithheld || r.MoreWithheld != 193 || !r.Withheld[7].All || r.Withheld[0].Router != "tor-000" || withheld[0].Router != "tor-199" {
		t.Errorf("of what is withheld it names %v and %d more", r.Withheld, r.MoreWithheld)
	}
	if len(r.Down) != maxDown || r.MoreDown != 192 || r.Down[0].Router != "tor-000" || down[0].Router != "tor-199" {
		t.Errorf("of sessions it names %v and %d more", r.Down, r.MoreDown)
	}
	if len(r.Links) != maxLinks || r.MoreLinks != 100 || len(r.Settings) != maxSettings || r.MoreSettings != 197 {
		t.Errorf("it names %d problems of links and %d settings, and %d and %d more", len(r.Links), len(r.Settings), r.MoreLinks, r.MoreSettings)
	}
	r.NameDown([]DownSession{{Router: strings.Repeat("a", maxDownBytes), Peer: "10.0.0.1", Cause: "NoAnswer"}})
	if want := "routes 0/0, sessions 0/0: and 1 more"; r.Counts.String() != want {
		t.Errorf("one that has no room makes %q, want %q", r.Counts.String(), want)
	}
	r.NameDown(nil)
	r.NameLinks(nil)
	r.NameSettings(nil)
	r.NameWithheld(nil)
	if !reflect.DeepEqual(r, Report{}) {
		t.Errorf("where nothing is wrong any more it still has %+v", r)
	}
}

func TestBesidesLeavesOutCountsAndTrials(t *testing.T) {
	for _, tt := range [][2]string{
		{"routes 8/8, sessions 2/2", ""},
		{"routes 8/8, sessions 2/2; on trial 1: a up", ""},
		{"well", ""},
		{"routes 8/8, sessions 2/2; " + newer + "; on trial 1: a up; clock 3 s late", newer + "; clock 3 s late"},
	} {
		if got := ParseReport(tt[0]).Besides(); got != tt[1] {
			t.Errorf("%q has besides %q", tt[0], got)
		}
	}
}

func TestWhatIsUnreadHasASentenceForEachKind(t *testing.T) {
	for want, u := range map[string]Unread{
		"":    {},
		newer: {Inventory: newer},
		newer + " | IPAddresses that are not read: 2; the first: x": {Inventory: newer, Claims: 2, Claim: "x"},
	} {
		if got := strings.Join(u.Sentences(), " | "); got != want {
			t.Errorf("%+v: %q", u, got)
		}
	}
}

// drawReport draws what agents of this version and of others may say: names as the inventory and the kernel have them.
func drawReport(t *rapid.T) Report {
	router := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,2}`)
	count := rapid.IntRange(0, 1<<20)
	device := rapid.StringMatching(`[!-+\-.0-9<-~é]{1,15}`) // neither a blank, a colon nor a slash, as Linux wants it; commas and semicolons: see below
	peer := rapid.OneOf(rapid.StringMatching(`[0-9.]{7,15}|[0-9a-f:]{2,39}`), rapid.Map(device, func(d string) string { return "fe80::1%" + d }))
	text := rapid.Map(rapid.StringMatching(`[!-~].{0,80}`), func(s string) string { return strings.ReplaceAll(s, "; ", ";") })
	down := rapid.Custom(func(t *rapid.T) DownSession {
		return DownSession{router.Draw(t, "router"), peer.Draw(t, "peer"), rapid.SampledFrom([]string{"NoAnswer", "ASNMismatch", CauseLacksPodCIDRs, ""}).Draw(t, "cause")}
	})
	r := Report{
		Passwords: drawSome(t, "passwords", router),
		Links: drawSome(t, "links", rapid.Custom(func(t *rapid.T) LinkProblem {
			return LinkProblem{peer.Draw(t, "on"), rapid.SampledFrom([]Reason{NoCarrier, AddressConflict}).Draw(t, "reason"), rapid.OneOf(rapid.Just(""), device, router).Draw(t, "detail")}
		})),
		Withheld: drawSome(t, "withheld", rapid.Custom(func(t *rapid.T) Withheld {
			return Withheld{router.Draw(t, "router"), peer.Draw(t, "peer"), rapid.SampledFrom([]Reason{"FamilyNotNegotiated", "TooManyPrefixes"}).Draw(t, "reason"), rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family"), rapid.Bool().Draw(t, "all")}
		})),
		Settings: drawSome(t, "settings", rapid.Custom(func(t *rapid.T) Setting {
			return Setting{"net/ipv4/conf/" + device.Draw(t, "device") + "/rp_filter", rapid.SampledFrom([]string{"0", "1", ""}).Draw(t, "value"), rapid.SampledFrom([]string{"1", "0 or 2"}).Draw(t, "want")}
		})),
		MoreLinks: count.Draw(t, "links more"), MoreSettings: count.Draw(t, "settings more"), MoreWithheld: count.Draw(t, "withheld more"),
	}
	if r.Counted = rapid.Bool().Draw(t, "counted"); r.Counted {
		r.Routes, r.RoutesWanted, r.Sessions, r.SessionsWanted = count.Draw(t, "routes"), count.Draw(t, "wanted"), count.Draw(t, "up"), count.Draw(t, "sessions")
		r.LacksPodCIDRs, r.MoreDown, r.Down = rapid.Bool().Draw(t, "lacks"), count.Draw(t, "more"), drawSome(t, "down", down)
	} else {
		r.Head = text.Draw(t, "head")
	}
	if rapid.Bool().Draw(t, "tried") {
		r.Trial = TrialReport{rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "id"), rapid.MapOfN(router, rapid.SampledFrom([]TrialState{TrialUp, TrialDown, TrialDownBefore}), 0, 4).Draw(t, "trial")}
	}
	if rapid.Bool().Draw(t, "unread") {
		r.Unread = Unread{rapid.SampledFrom([]string{"", newer, "the accepted inventory: " + text.Draw(t, "why")}).Draw(t, "inventory"), count.Draw(t, "claims"), text.Draw(t, "claim")}
	}
	r.ProxyRefuses = rapid.Bool().Draw(t, "proxy")
	if rapid.Bool().Draw(t, "waits") {
		r.Waiting = text.Draw(t, "waiting")
	}
	if lost := (RulesLost{count.Draw(t, "gone"), count.Draw(t, "of")}); lost.Gone > 0 {
		r.RulesLost = lost
	}
	for _, other := range drawSome(t, "others", text) {
		r.Others = append(r.Others, "clock: "+other)
	}
	return r
}

// drawSome draws none to four; none is nil.
func drawSome[E any](t *rapid.T, label string, one *rapid.Generator[E]) []E {
	if all := rapid.SliceOfN(one, 0, 4).Draw(t, label); len(all) > 0 {
		return all
	}
	return nil
}

func TestAReportIsReadAsItWasPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		if got := ParseReport(r.String()); !reflect.DeepEqual(got, r) {
			t.Fatalf("%q is read as\n%+v, was\n%+v", r.String(), got, r)
		}
	})
}

// FuzzParseReport reads any text, and what is printed of it again as the same: nothing is lost after that, and no part
// that was text becomes another.
func FuzzParseReport(f *testing.F) {
	for _, tt := range messages {
		f.Add(tt.message)
	}
	f.Add("routes 12/12, sessions 0/2: tor-r1/10.10.1.1 ASNMismatch, tor-r2/10.10.1.2 NoAnswer; on trial 3f2a9c01: tor-r1 up")
	f.Add("routes 1/1, sessions 1/1; the new password did not bring up the session with tor-r1; configmap plinth-accepted is of format 99")
	f.Add("routes 00/1, sessions 0/99999999999999999999: , and 0 more; ; the first: ; 5 more on links; 6 more on links;")
	f.Add("routes 1/1, sessions 0/1: /x y, a/ z; on link  x, A R ; on trial 1:  ; kernel settings: a is  and should be , and 3 more, and 4 more")
	f.Fuzz(func(t *testing.T, message string) {
		once := ParseReport(message)
		if again := ParseReport(once.String()); !reflect.DeepEqual(again, once) {
			t.Fatalf("%q is read as\n%+v, and printed and read again as\n%+v", message, once, again)
		}
		_, _, _ = once.Besides(), once.NoSessionIsUp(), once.Unread.Sentences()
		if _, more := once.RoutersDown(); once.MoreDown > 0 && !more {
			t.Fatalf("%q: others are down, too", message)
		}
	})
}
