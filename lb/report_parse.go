package lb

import (
	"regexp"
	"strconv"
	"strings"
)

// ParseReport reads the message of a condition [FabricReady]. It reads whatever stands there: each part that it does not
// know, or that is there twice, is text in the report. So a report that is printed is read as it was.
func ParseReport(message string) Report {
	var report Report
	parts := strings.Split(message, partSeparator)
	if counts := parseCounts(parts[0]); counts.Counted {
		report.Counts = counts
	} else {
		report.Head = parts[0]
	}
	for _, part := range parts[1:] {
		if rest, known := report.take(part); !known {
			report.Others = append(report.Others, rest)
		}
	}
	return report
}

// countsForm matches the beginning of a message.
var countsForm = regexp.MustCompile(`^routes (\d+)/(\d+), sessions (\d+)/(\d+)( with all pod CIDRs)?(?s:: (.+))?$`)

// parseCounts reads the first part of a message. What is not as String prints it, is not counted.
func parseCounts(part string) (counts Counts) {
	matched := countsForm.FindStringSubmatch(part)
	if matched == nil {
		return Counts{}
	}
	for i, n := range []*int{&counts.Routes, &counts.RoutesWanted, &counts.Sessions, &counts.SessionsWanted} {
		*n, _ = strconv.Atoi(matched[i+1]) // of one that is too large String prints another
	}
	counts.Counted, counts.LacksPodCIDRs = true, matched[5] != ""
	if matched[6] != "" {
		var entries []string
		entries, counts.MoreDown = splitEntries(matched[6])
		for _, one := range entries {
			counts.Down = append(counts.Down, parseDown(one))
		}
	}
	if counts.String() != part {
		return Counts{}
	}
	return counts
}

func parseDown(entry string) DownSession {
	end, cause, _ := strings.Cut(entry, " ")
	router, peer, _ := strings.Cut(end, "/")
	d := DownSession{Router: router, Peer: peer, Cause: cause}
	if router == "" || peer == "" || d.String() != entry {
		return DownSession{Cause: entry}
	}
	return d
}

// splitEntries is the reverse of [joinEntries].
func splitEntries(text string) (entries []string, more int) {
	entries = strings.Split(text, entrySplit)
	last := len(entries) - 1
	said, marked := strings.CutPrefix(entries[last], "and ")
	said, ended := strings.CutSuffix(said, " more")
	if n, ok := number(said); marked && ended && ok {
		return entries[:last], n
	}
	return entries, 0
}

// number reads a count of at least one, as String prints it.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && strconv.Itoa(n) == text
}

// take reads one part but the first, by the first function that knows some of it. What is not known of it is the rest.
func (r *Report) take(part string) (rest string, known bool) {
	for _, read := range []func(*Report, string) (string, bool){takeUnread, takePasswords, takeTrial, takeLinks, takeWithheld, takeProxy, takeRules, takeWaiting, takeSettings} {
		if rest, known := read(r, part); known || rest != part {
			return rest, known
		}
	}
	return part, false
}

// unreadForm matches the part by which an agent reports that it does not read the accepted inventory: that this is of a newer format, or another reason.
var unreadForm = regexp.MustCompile(`^\S+ \S+ is of format |^the accepted inventory: `)

func takeUnread(report *Report, part string) (string, bool) {
	if report.Unread.Inventory == "" && unreadForm.MatchString(part) {
		report.Unread.Inventory = part
		return "", true
	}
	if said, marked := strings.CutPrefix(part, claimsMark); marked && report.Unread.Claims == 0 {
		if n, ok := number(said); ok {
			report.Unread.Claims = n
			return "", true
		}
	}
	if said, marked := strings.CutPrefix(part, claimMark); marked && report.Unread.Claim == "" && said != "" {
		report.Unread.Claim = said
		return "", true
	}
	return part, false
}

func takePasswords(r *Report, part string) (string, bool) {
	said, marked := strings.CutPrefix(part, passwordMark)
	if !marked || r.Passwords != nil {
		return part, false
	}
	r.Passwords = strings.Split(said, entrySplit)
	return "", true
}

func takeTrial(report *Report, part string) (string, bool) {
	said, marked := strings.CutPrefix(part, trialMark)
	id, sessions, named := strings.Cut(said, ": ")
	if !marked || !named || id == "" || report.Trial.ID != "" {
		return part, false
	}
	trial := TrialReport{id, map[string]TrialState{}}
	if sessions != "" {
		for one := range strings.SplitSeq(sessions, entrySplit) {
			router, state, _ := strings.Cut(one, " ")
			if _, twice := trial.Sessions[router]; twice || router == "" {
				return part, false
			}
			trial.Sessions[router] = TrialState(state)
		}
	}
	report.Trial = trial
	return "", true
}

// takeLinks leaves entries that name no reason.
func takeLinks(report *Report, part string) (rest string, known bool) {
	if said, ended := strings.CutSuffix(part, moreLinksMark); ended && report.MoreLinks == 0 {
		if n, ok := number(said); ok {
			report.MoreLinks = n
			return "", true
		}
	}
	said, marked := strings.CutPrefix(part, linkMark)
	if !marked || report.Links != nil {
		return part, false
	}
	var left []string
	for one := range strings.SplitSeq(said, entrySplit) {
		words := append(strings.SplitN(one, " ", 3), "")
		if len(words) < 3 {
			left = append(left, one)
			continue
		}
		report.Links = append(report.Links, LinkProblem{On: words[0], Reason: Reason(words[1]), Detail: words[2]})
	}
	if len(left) > 0 {
		return linkMark + strings.Join(left, entrySplit), false
	}
	return "", true
}

func takeProxy(report *Report, part string) (string, bool) {
	if part != proxyPart || report.ProxyRefuses {
		return part, false
	}
	report.ProxyRefuses = true
	return "", true
}

func takeRules(report *Report, part string) (string, bool) {
	var lost RulesLost
	said, _ := strings.CutPrefix(part, string(ProxyRulesLost)+": kube-proxy's rules are gone for ")
	gone, of, _ := strings.Cut(strings.TrimSuffix(said, " VIPs"), " of ")
	lost.Gone, _ = strconv.Atoi(gone)
	lost.Of, _ = strconv.Atoi(of)
	if lost.Gone <= 0 || lost.String() != part || report.RulesLost.Gone > 0 {
		return part, false
	}
	report.RulesLost = lost
	return "", true
}

func takeWaiting(r *Report, part string) (string, bool) {
	said, marked := strings.CutPrefix(part, waitingMark)
	if !marked || said == "" || r.Waiting != "" {
		return part, false
	}
	r.Waiting = said
	return "", true
}

func takeSettings(report *Report, part string) (string, bool) {
	said, marked := strings.CutPrefix(part, settingsMark)
	if !marked || report.Settings != nil || report.MoreSettings > 0 {
		return part, false
	}
	var entries []string
	entries, report.MoreSettings = splitEntries(said)
	for _, one := range entries {
		report.Settings = append(report.Settings, parseSetting(one))
	}
	return "", true
}

func parseSetting(entry string) Setting {
	name, values, _ := strings.Cut(entry, " is ")
	value, want, _ := strings.Cut(values, " and should be ")
	if want == "" {
		return Setting{Name: entry}
	}
	return Setting{Name: name, Value: value, Want: want}
}
