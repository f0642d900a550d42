package edit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// Agent is the state of a machine's agent as its Node shows it.
type Agent struct {
	Node  string
	Up    bool      // all of its sessions are, by the condition [lb.FabricReady]
	Says  lb.Report // the message of that condition
	Alone bool      // no other machine announces some VIP
	// Routers are the routers that it has sessions with; empty: not known.
	Routers []string
	// Endpoints is the number of endpoints of Services that are ready on it: their clients, and pods, may lose their way while it tries.
	Endpoints int
}

// How a machine's session with a router is.
const (
	isUp = iota
	mayBeUp
	isDown
)

// session is how its session with a router is, as far as the condition says: it does not name all
// that are down where they are many. With a router that it has none with, it is that of all others, whose place it takes.
func (a Agent) session(router string) int {
	down, more := a.Says.RoutersDown()
	of := []string{router}
	if len(a.Routers) > 0 && !slices.Contains(a.Routers, router) {
		of = a.Routers
	}
	notDown := slices.DeleteFunc(slices.Clone(of), func(r string) bool { return slices.Contains(down, r) })
	switch {
	case a.Up:
		return isUp
	case len(notDown) == 0:
		return isDown
	case more:
		return mayBeUp
	}
	return isUp
}

// Trial is of an edit that gives sessions other terms: one machine for each router tries them first.
type Trial struct {
	ID      string // by which agents report of it; empty: it is not begun
	Until   time.Time
	Routers map[string][]string // whose sessions a Node tries
}

// Lines are the Nodes with the routers whose sessions each tries, sorted.
func (t Trial) Lines() (lines []string) {
	for _, node := range slices.Sorted(maps.Keys(t.Routers)) {
		lines = append(lines, node+" "+strings.Join(t.Routers[node], " "))
	}
	return lines
}

// Nodes returns the Nodes that try something, sorted.
func (t Trial) Nodes() []string { return slices.Sorted(maps.Keys(t.Routers)) }

// trialNodes chooses a machine for each router whose sessions change: one whose session with it is
// up, so that there is something to learn; that does not alone announce a VIP; that has no endpoint, or few; and that
// does not try another router's already, for it then keeps that one. Routers that no machine with an agent
// has a session with are left out.
func trialNodes(changed Retermed, agents map[string]Agent) map[string][]string {
	chosen := map[string][]string{}
	for _, router := range changed.Routers() {
		var candidates []Agent
		for _, machine := range changed[router] {
			if a, ok := agents[machine]; ok {
				candidates = append(candidates, a)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		rank := func(agent Agent) (count int) {
			if chosen[agent.Node] != nil {
				count++
			}
			if agent.Endpoints > 0 {
				count += 2
			}
			if agent.Alone {
				count += 4
			}
			return count + 8*agent.session(router)
		}
		best := slices.MinFunc(candidates, func(a, b Agent) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Endpoints, b.Endpoints), strings.Compare(a.Node, b.Node))
		})
		chosen[best.Node] = append(chosen[best.Node], router)
	}
	return chosen
}

// failures returns the agent's report on each session on trial that is not known to be up, or to be down as all sessions with the
// router were; silent are the Nodes whose agents report nothing of the trial.
func (t Trial) failures(agents map[string]Agent, changed Retermed) (failed, silent []string) {
	reports := map[string]lb.Report{}
	for _, a := range agents {
		reports[a.Node] = a.Says
	}
	for _, node := range t.Nodes() {
		report := reports[node]
		for _, router := range t.Routers[node] {
			switch state := report.Trial.Sessions[router]; {
			case report.Trial.ID != t.ID:
				silent = append(silent, node)
				failed = append(failed, fmt.Sprintf("the agent of %s did not say how its session with %s is (an agent of an older version never does)", node, router))
			case state == lb.TrialDownBefore && slices.ContainsFunc(changed[router], func(m string) bool {
				a, known := agents[m]
				return known && a.Node != node && a.session(router) == isUp
			}):
				failed = append(failed, fmt.Sprintf("the session of %s with %s was down before, and others are up that it would tell nothing of", node, router))
			case state != lb.TrialUp && state != lb.TrialDownBefore:
				failed = append(failed, fmt.Sprintf("the session of %s with %s is %s (%s)", node, router, cmp.Or(state, lb.TrialDown), report))
			}
		}
	}
	return failed, slices.Compact(silent)
}

// trialFailed returns the problem of an edit whose sessions did not come up where they were tried; failed describes
// each of them.
func trialFailed(failed []string, within time.Duration, digest string) inventory.Problem {
	return inventory.Problem{
		Severity: inventory.Error, Code: inventory.TrialFailed, Path: "spec",
		Message: "gives sessions other terms, and not all of those that were tried came up within " + document.ShortDuration(within) + ": " +
			strings.Join(failed, "; ") + ". They are as before again, and all others were not touched",
		Accepted: "terms that the router has too, or to change all at once without a trial: plinth allow " + digest,
	}
}
