package lb

import (
	"maps"
	"slices"
	"strings"
)

// TrialState is what became of a machine's sessions with a router whose new terms it tries.
type TrialState string

// What an agent says of sessions that it tries.
const (
	TrialUp         TrialState = "up"
	TrialDown       TrialState = "down"
	TrialDownBefore TrialState = "down as before" // they were down under the old terms, too
)

// TrialReport is what an agent says, in the message of [FabricReady], of an edit that it tries:
// by router, what became of its sessions. Agents write it and the controller reads it.
type TrialReport struct {
	ID       string
	Sessions map[string]TrialState
}

const trialMark = "on trial "

// String is the report as it stands in the message.
func (r TrialReport) String() string {
	said := make([]string, 0, len(r.Sessions))
	for _, router := range slices.Sorted(maps.Keys(r.Sessions)) {
		said = append(said, router+" "+string(r.Sessions[router]))
	}
	return trialMark + r.ID + ": " + strings.Join(said, ", ")
}

// TrialReportIn finds the report in a message; false: there is none.
func TrialReportIn(message string) (TrialReport, bool) {
	for part := range strings.SplitSeq(message, "; ") {
		said, marked := strings.CutPrefix(part, trialMark)
		id, sessions, named := strings.Cut(said, ": ")
		if !marked || !named {
			continue
		}
		r := TrialReport{id, map[string]TrialState{}}
		for one := range strings.SplitSeq(sessions, ", ") {
			router, state, _ := strings.Cut(one, " ")
			r.Sessions[router] = TrialState(state)
		}
		return r, true
	}
	return TrialReport{}, false
}

// SessionsDown reads from the message of [FabricReady] which routers' sessions are down; more: others
// are that it has no room for.
func SessionsDown(message string) (routers []string, more bool) {
	counts, _, _ := strings.Cut(message, "; ")
	_, counts, _ = strings.Cut(counts, "sessions ")
	_, causes, found := strings.Cut(counts, ": ")
	if !found {
		return nil, false
	}
	for cause := range strings.SplitSeq(causes, ", ") {
		router, _, named := strings.Cut(cause, "/")
		if !named {
			more = true // "and 4 more"
			continue
		}
		routers = append(routers, router)
	}
	return slices.Compact(routers), more
}
