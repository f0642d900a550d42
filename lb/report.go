package lb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Report is an agent's report in the message of the condition [FabricReady]: the counts of its routes and sessions, and besides
// the problems of the machine, its routers or the cluster. Agents print it with String; the controller, plinth and doctor parse it
// with [ParseReport], and nothing else parses a message. What the agent of another version reports stays in it as text.
type Report struct {
	Counts
	Head         string        // how the message begins where it does not begin with counts
	Unread       Unread        // what a newer version stored
	Passwords    []string      // the routers whose sessions a new password did not bring up
	Trial        TrialReport   // without an ID: no edit is tried
	Links        []LinkProblem // the first of them, sorted
	MoreLinks    int           // problems of links besides
	Withheld     []Withheld    // the first of what sessions that are up withhold, sorted
	MoreWithheld int           // others besides
	ProxyRefuses bool          // kube-proxy says itself that it does not serve
	RulesLost    RulesLost
	Waiting      string    // what the agent has long waited for; empty: nothing
	Settings     []Setting // the first of the kernel's that keep packets from pods
	MoreSettings int       // settings besides
	Others       []string  // parts that this version does not know
}

// ProxyRefusal is what [ProxyUnhealthy] means in the report of an agent.
const ProxyRefusal = "kube-proxy says that it does not serve"

// How the parts of a message begin.
const (
	partSeparator = "; "
	entrySplit    = ", "
	waitingMark   = "waiting for "
	settingsMark  = "kernel settings: "
	passwordMark  = "the new password did not bring up the session with "
	claimsMark    = "IPAddresses that are not read: "
	claimMark     = "the first: "
	linkMark      = "on link "
	moreLinksMark = " more on links"
	withheldMark  = "withheld from "
	proxyPart     = string(ProxyUnhealthy) + ": " + ProxyRefusal
)

// String is the message. A text that would end its part is changed so that it does not: what stands there may be of a file.
func (r Report) String() string {
	parts := []string{r.Head}
	if r.Counted {
		parts[0] = r.Counts.String()
	}
	parts = append(parts, r.besides(r.Trial)...)
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, partSeparator, entrySplit)
	}
	return strings.Join(parts, partSeparator)
}

// Besides returns the report without its counts, and without the result of an edit that it tries; empty: there is nothing else.
func (r Report) Besides() string { return strings.Join(r.besides(TrialReport{}), partSeparator) }

// besides are the parts that follow the first one, with this trial.
func (r Report) besides(trial TrialReport) []string {
	parts := r.Unread.parts()
	if len(r.Passwords) > 0 {
		parts = append(parts, passwordMark+strings.Join(r.Passwords, entrySplit))
	}
	if trial.ID != "" {
		parts = append(parts, trial.String())
	}
	if len(r.Links) > 0 {
		parts = append(parts, linkMark+joinEntries(r.Links, 0))
	}
	if r.MoreLinks > 0 {
		parts = append(parts, fmt.Sprint(r.MoreLinks, moreLinksMark))
	}
	if len(r.Withheld) > 0 || r.MoreWithheld > 0 {
		parts = append(parts, withheldMark+joinEntries(r.Withheld, r.MoreWithheld))
	}
	if r.ProxyRefuses {
		parts = append(parts, proxyPart)
	}
	if r.RulesLost.Gone > 0 {
		parts = append(parts, r.RulesLost.String())
	}
	if r.Waiting != "" {
		parts = append(parts, waitingMark+r.Waiting)
	}
	if len(r.Settings) > 0 || r.MoreSettings > 0 {
		parts = append(parts, settingsMark+joinEntries(r.Settings, r.MoreSettings))
	}
	return append(parts, r.Others...)
}

// joinEntries lists entries, and how many there are more.
func joinEntries[E fmt.Stringer](all []E, more int) string {
	var text []string
	for _, e := range all {
		text = append(text, e.String())
	}
	if more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, entrySplit)
}

// Counts are of a machine's routes and sessions.
type Counts struct {
	Counted                                        bool // false: the message does not begin with them
	Routes, RoutesWanted, Sessions, SessionsWanted int
	LacksPodCIDRs                                  bool          // of some session that is up the router was not told all pod CIDRs
	Down                                           []DownSession // the first of those that do not count, sorted
	MoreDown                                       int           // others that do not count
}

// String returns the counts as they stand in the message.
func (c Counts) String() string {
	s := c.Numbers()
	if len(c.Down) > 0 || c.MoreDown > 0 {
		s += ": " + joinEntries(c.Down, c.MoreDown)
	}
	return s
}

// Numbers is String without the sessions by name.
func (c Counts) Numbers() string {
	s := fmt.Sprintf("routes %d/%d, sessions %d/%d", c.Routes, c.RoutesWanted, c.Sessions, c.SessionsWanted)
	if c.LacksPodCIDRs {
		s += " with all pod CIDRs"
	}
	return s
}

// NoSessionIsUp reports whether sessions are wanted and none is up.
func (c Counts) NoSessionIsUp() bool {
	return c.Counted && c.SessionsWanted > 0 && c.Sessions == 0 && !c.LacksPodCIDRs
}

// RoutersDown are the routers whose sessions are said to be down, each once; more: there may be others.
func (c Counts) RoutersDown() (routers []string, more bool) {
	more = c.MoreDown > 0 || !c.Counted
	for _, d := range c.Down {
		if d.Router == "" {
			more = true
		} else if !slices.Contains(routers, d.Router) {
			routers = append(routers, d.Router)
		}
	}
	return routers, more
}

// Silent are the sessions that are down, without their causes; nil where the message does not name all. A session that is up and lacks
// pod CIDRs announces VIPs.
func (c Counts) Silent() (all []DownSession) {
	if c.MoreDown > 0 {
		return nil
	}
	for _, d := range c.Down {
		if d.Router != "" && d.Cause != CauseLacksPodCIDRs {
			all = append(all, DownSession{Router: d.Router, Peer: d.Peer})
		}
	}
	return all
}

// A message names so many sessions that are down, in so many bytes: a Node is read by everybody.
const (
	maxDownBytes = 512
	maxDown      = 8
)

// NameDown has the report name sessions that do not count: the first, sorted as they are printed, that have room.
func (c *Counts) NameDown(all []DownSession) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b DownSession) int { return strings.Compare(a.String(), b.String()) })
	size := 0
	c.Down, c.MoreDown = nil, 0
	for i, session := range sorted {
		size += len(entrySplit) + session.room()
		if i == maxDown || size > maxDownBytes {
			c.MoreDown = len(sorted) - i
			return
		}
		c.Down = append(c.Down, session)
	}
}

// room is the number of bytes that the entry may need with any cause: which sessions are named does not depend on causes, which change.
func (d DownSession) room() int {
	if d.Router == "" {
		return len(d.String())
	}
	return len(DownSession{Router: d.Router, Peer: d.Peer}.String()) + max(len(" HoldTimerExpired"), len(" ")+len(d.Cause))
}

// CauseLacksPodCIDRs is the cause of a session that is up and does not count, since its router was not told all pod CIDRs.
const CauseLacksPodCIDRs = "lacks pod CIDRs"

// DownSession is a session that does not count, and why. It compares with ==.
type DownSession struct {
	Router string // empty: all that is said is in Cause
	Peer   string // the router's address
	Cause  string // as docs/reference/reasons.md has it, or [CauseLacksPodCIDRs]
}

// String returns the session as it stands in the message.
func (d DownSession) String() string {
	if d.Router == "" {
		return d.Cause
	}
	s := d.Router + "/" + strings.Map(inWord, d.Peer)
	if d.Cause != "" {
		s += " " + d.Cause
	}
	return s
}

// inWord replaces runes that would end a word or an entry: an inventory may have any text as the zone of an address.
func inWord(c rune) rune {
	if unicode.IsSpace(c) || c == ',' || c == ';' {
		return '_'
	}
	return c
}

// Unread names the objects that a newer version stored and an agent does not read: what it knew before counts. It compares with ==.
type Unread struct {
	Inventory string // why the accepted inventory is not read; empty: it is
	Claims    int    // IPAddresses that are not read
	Claim     string // why the first of them is not
}

func (u Unread) parts() (all []string) {
	if u.Inventory != "" {
		all = append(all, u.Inventory)
	}
	if u.Claims > 0 {
		all = append(all, fmt.Sprint(claimsMark, u.Claims))
	}
	if u.Claim != "" {
		all = append(all, claimMark+u.Claim)
	}
	return all
}

// Sentences has one for each kind of object that is not read.
func (u Unread) Sentences() (all []string) {
	claims := Unread{Claims: u.Claims, Claim: u.Claim}
	for _, one := range []Unread{{Inventory: u.Inventory}, claims} {
		if parts := one.parts(); len(parts) > 0 {
			all = append(all, strings.Join(parts, partSeparator))
		}
	}
	return all
}

// RulesLost is the number of VIPs, of all that a machine could serve, whose rules of kube-proxy are gone; zero: none are
// reported. It compares with ==.
type RulesLost struct{ Gone, Of int }

// All reports whether the machine can serve nothing.
func (l RulesLost) All() bool { return l.Gone > 0 && l.Gone == l.Of }

// String returns the numbers as they stand in the message.
func (l RulesLost) String() string {
	return fmt.Sprintf("%s: kube-proxy's rules are gone for %d of %d VIPs", ProxyRulesLost, l.Gone, l.Of)
}

// Setting is a setting of the kernel that keeps packets from pods. It compares with ==.
type Setting struct {
	Name, Value string // as sysctl has both
	Want        string // empty: all that is said is in Name
}

// String returns the setting as it stands in the message.
func (s Setting) String() string {
	if s.Want == "" {
		return s.Name
	}
	return s.Name + " is " + s.Value + " and should be " + s.Want
}

// maxSettings is the number of settings that a message names: they often differ link by link.
const maxSettings = 3

// NameSettings has the report name the first of these settings.
func (r *Report) NameSettings(all []Setting) {
	r.Settings = all[:min(len(all), maxSettings)]
	r.MoreSettings = len(all) - len(r.Settings)
}

// maxLinks bounds what a Node says: it is read by everybody. Services know by it alone which host has their VIP.
const maxLinks = 100

// NameLinks has the report name the first of these problems.
func (r *Report) NameLinks(all []LinkProblem) {
	r.Links = all[:min(len(all), maxLinks)]
	r.MoreLinks = len(all) - len(r.Links)
}

// TrialReport is an agent's report on an edit that it tries: by router, the state of its sessions.
type TrialReport struct {
	ID       string
	Sessions map[string]TrialState
}

const trialMark = "on trial "

// String returns the report as it stands in the message.
func (r TrialReport) String() string {
	said := make([]string, 0, len(r.Sessions))
	for _, router := range slices.Sorted(maps.Keys(r.Sessions)) {
		one := router
		if state := r.Sessions[router]; state != "" {
			one += " " + string(state)
		}
		said = append(said, one)
	}
	return trialMark + r.ID + ": " + strings.Join(said, entrySplit)
}

// Equal reports whether both say the same.
func (r TrialReport) Equal(o TrialReport) bool {
	return r.ID == o.ID && maps.Equal(r.Sessions, o.Sessions)
}
