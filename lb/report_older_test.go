package lb

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What follows is how controllers read a message before there was a [Report]: as it was, since these run beside newer agents
// while a cluster is upgraded.

func olderTrial(message string) (TrialReport, bool) {
	for part := range strings.SplitSeq(message, "; ") {
		said, marked := strings.CutPrefix(part, "on trial ")
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

func olderDown(message string) (routers []string, more bool) {
	counts, _, _ := strings.Cut(message, "; ")
	_, counts, _ = strings.Cut(counts, "sessions ")
	_, causes, found := strings.Cut(counts, ": ")
	if !found {
		return nil, false
	}
	for cause := range strings.SplitSeq(causes, ", ") {
		router, _, named := strings.Cut(cause, "/")
		if !named {
			more = true
			continue
		}
		routers = append(routers, router)
	}
	return slices.Compact(routers), more
}

var olderNoSession = regexp.MustCompile(`^routes \d+/\d+, sessions 0/[1-9]\d*($|[:;])`)

func olderLinks(message string) (all []LinkProblem) {
	for part := range strings.SplitSeq(message, "; ") {
		said, marked := strings.CutPrefix(part, "on link ")
		if !marked {
			continue
		}
		for one := range strings.SplitSeq(said, ", ") {
			if words := strings.SplitN(one, " ", 3); len(words) >= 2 {
				p := LinkProblem{On: words[0], Reason: Reason(words[1])}
				if len(words) == 3 {
					p.Detail = words[2]
				}
				all = append(all, p)
			}
		}
	}
	return all
}

func olderRules(message string) (lost RulesLost) {
	for part := range strings.SplitSeq(message, "; ") {
		if n, _ := fmt.Sscanf(part, "ProxyRulesLost: kube-proxy's rules are gone for %d of %d VIPs", &lost.Gone, &lost.Of); n == 2 {
			return lost
		}
	}
	return RulesLost{}
}

// TestAnOlderControllerReadsWhatAnAgentSays, and this one reads the same.
func TestAnOlderControllerReadsWhatAnAgentSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		r.Head, r.Counted = "", true
		r.NameDown(slices.Clone(r.Down))
		message := r.String()
		if trial, has := olderTrial(message); has != (r.Trial.ID != "") || has && len(r.Trial.Sessions) > 0 && !trial.Equal(r.Trial) {
			t.Fatalf("%q: a trial %v, want %v", message, trial, r.Trial)
		}
		routers, more := olderDown(message)
		if now, nowMore := ParseReport(message).RoutersDown(); !reflect.DeepEqual(routers, now) || more != nowMore {
			t.Fatalf("%q: down are %q, %v, want %q, %v", message, routers, more, now, nowMore)
		}
		if none := olderNoSession.MatchString(message); none != r.NoSessionIsUp() {
			t.Fatalf("%q: no session is up: %v", message, none)
		}
		if links := olderLinks(message); !slices.Equal(links, r.Links) {
			t.Fatalf("%q: of links %v", message, links)
		}
		if lost := olderRules(message); lost != r.RulesLost {
			t.Fatalf("%q: rules %v", message, lost)
		}
	})
}
