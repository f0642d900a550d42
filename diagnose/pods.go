package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
)

// controllerFindings look at the controller's own pods: while none runs, nothing else here is
// kept true. Two of them share no Node.
func controllerFindings(seen Observed) (out []Finding) {
	places := 0
	for _, n := range seen.Nodes {
		if n.ControlPlane {
			places++
		}
	}
	for _, pod := range seen.Controllers {
		if pod.Pending == "" {
			continue
		}
		why := fmt.Sprintf("pod %s does not run: %s", pod.Name, pod.Pending)
		if pod.Node == "" && places == 1 && len(seen.Controllers) > 1 {
			why += "; the cluster has one control-plane node: set the replicas of the controller to 1"
		}
		out = append(out, Finding{Kind: KindController, Reason: string(ControllerNotRunning), Message: why})
	}
	return append(out, leaderFindings(seen)...)
}

// leaderFindings returns findings on a controller that is dead, or was never there: nothing else here would say so, for what it
// wrote last stands there still.
func leaderFindings(seen Observed) []Finding {
	leader := seen.Leader
	runs := slices.ContainsFunc(seen.Controllers, func(p Pod) bool { return p.Pending == "" })
	switch held := leader != nil && leader.Holder != "" && leader.Silent == 0; {
	case held && leader.Program != "":
		return []Finding{{Kind: KindController, Reason: string(LeaseOfOther), Message: fmt.Sprintf("none of Plinth's leads: %s has the lease %s, by program %s, and Plinth's controller waits for it. "+
			"Until it leads, %s. A cluster has one cloud controller manager: end the other one (k3s and RKE2: disable-cloud-controller: true)", leader.Holder, leader.Lease, leader.Program, whileNoneLeads)}}
	case held && leader.Idle != "" && seen.Inventory == nil: // with one in force it began before the other one
		return []Finding{{Kind: KindController, Reason: reasonOtherInstallation, Message: fmt.Sprintf("%s leads, and does nothing: %s", leader.Holder, leader.Idle)}}
	case leader == nil, held, !leader.Exists && runs: // one that runs with --leader-elect=false has no lease
		return nil
	}
	why := fmt.Sprintf("none leads: nobody has the lease %s", leader.Lease)
	if !leader.Exists {
		why = fmt.Sprintf("none leads: there is no lease %s, as of one that runs with --leader-elect=false outside of the cluster", leader.Lease)
	}
	if leader.Holder != "" {
		why = fmt.Sprintf("none leads: %s had the lease %s, and renewed it %s ago the last time", leader.Holder, leader.Lease, leader.Silent.Round(time.Second))
	}
	return []Finding{{
		Kind: KindController, Reason: string(NoLeader),
		Message: why + ". Until one does, " + whileNoneLeads + ". Its log says why it ended, or does not lead",
	}}
}

// whileNoneLeads is the state of a cluster while no controller leads.
const whileNoneLeads = "no edit, no new Service and no new Node is looked at; what is announced stays"

// agentFindings look at the pods of agents: those that do not run, machines without one, and
// those of another version.
func agentFindings(seen Observed) (out []Finding) {
	if len(seen.Agents) == 0 {
		return nil // they run outside of the cluster
	}
	has := map[string]bool{}
	for _, pod := range seen.Agents {
		has[pod.Node] = true
		if pod.Pending != "" {
			out = append(out, Finding{Kind: KindAgent, Of: pod.Node, Reason: string(AgentNotRunning), Message: fmt.Sprintf("pod %s does not run: %s", pod.Name, pod.Pending)})
		}
	}
	for machine, n := range match(seen).nodes {
		if m, _ := seen.Inventory.Machine(machine); m.State == inventory.StateActive && !has[n.Name] {
			out = append(out, Finding{Kind: KindAgent, Of: n.Name, Reason: string(AgentMissing), Message: "no pod of the agent is on this Node"})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Message, b.Message)) })
	return append(out, versionFindings(seen)...)
}

// versionFindings tell of agents that run another image than most, or than some where no image is that of most, and of
// agents and controllers whose images have different tags.
func versionFindings(seen Observed) (out []Finding) {
	nodes := map[string][]string{} // by image
	for _, pod := range seen.Agents {
		nodes[pod.Image] = append(nodes[pod.Image], cmp.Or(pod.Node, pod.Name))
	}
	images := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(nodes[b]), len(nodes[a])), cmp.Compare(a, b))
	})
	var tags []string // those that a controller may have
	for _, image := range images {
		slices.Sort(nodes[image])
		if len(nodes[image]) == len(nodes[images[0]]) {
			tags = append(tags, tagOf(image))
		}
	}
	whose := "of most"
	if len(tags) > 1 {
		whose = "of " + someOf(nodes[images[0]])
	}
	for _, image := range images[1:] {
		out = append(out, Finding{Kind: KindAgent, Of: someOf(nodes[image]), Reason: string(VersionsDiffer), Message: fmt.Sprintf("is of another version: its image is %s, and that %s is %s", image, whose, images[0])})
	}
	for _, pod := range seen.Controllers {
		if tag := tagOf(pod.Image); tag != "" && !slices.Contains(tags, "") && !slices.Contains(tags, tag) {
			return append(out, Finding{Kind: KindController, Reason: string(VersionsDiffer), Message: fmt.Sprintf("it is of version %s, and %s of %s", tag, whoseAgents(tags), strings.Join(tags, " and "))})
		}
	}
	return out
}

// whoseAgents returns the subject of a sentence on agents that have one of some tags.
func whoseAgents(tags []string) string {
	if len(tags) > 1 {
		return "agents are"
	}
	return "most agents are"
}

// tagOf is the tag of an image's name; empty: it has none, or is named by its digest.
func tagOf(image string) string {
	if strings.Contains(image, "@") {
		return ""
	}
	_, last, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return last
}
