package doctor

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb"
)

func readNode(node *v1.Node) Node {
	_, excluded := node.Labels[v1.LabelNodeExcludeBalancers]
	_, controlPlane := node.Labels[controlPlaneLabel]
	out := Node{
		Name: node.Name, Excluded: excluded, ControlPlane: controlPlane, ProviderID: node.Spec.ProviderID, SystemUUID: node.Status.NodeInfo.SystemUUID,
		NodeIPs: listOf(addresses(strings.Split(node.Annotations[providedNodeIP], ","))),
		Kubelet: node.Status.NodeInfo.KubeletVersion, System: node.Status.NodeInfo.OperatingSystem,
	}
	for _, t := range node.Spec.Taints {
		out.Taints = append(out.Taints, t.Key)
	}
	slices.Sort(out.Taints)
	out.Taints = slices.Compact(out.Taints)
	for _, a := range node.Status.Addresses {
		if a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP {
			out.Addresses = append(out.Addresses, addresses([]string{a.Address})...)
		}
	}
	for _, s := range node.Spec.PodCIDRs {
		out.PodCIDRs = append(out.PodCIDRs, prefixes(s)...)
	}
	for _, condition := range node.Status.Conditions {
		switch condition.Type {
		case v1.NodeReady:
			out.Ready = condition.Status == v1.ConditionTrue
			out.NoCNI = !out.Ready && strings.Contains(strings.ToLower(condition.Message), "cni")
		case v1.NodeNetworkUnavailable:
			out.NoRoutes = condition.Status == v1.ConditionTrue && condition.Reason == "NoRouteCreated" // a CNI has other reasons
		case lb.FabricReady:
			out.Agent = readAgent(lb.ParseReport(condition.Message))
		default: // of no interest here
		}
	}
	return out
}

func listOf(all []netip.Addr) string {
	var text []string
	for _, a := range all {
		text = append(text, a.String())
	}
	return strings.Join(text, ",")
}

// readAgent reduces an agent's report to the parts that a finding can mend.
func readAgent(report lb.Report) *Agent {
	agent := &Agent{Links: report.Links, ProxyRefuses: report.ProxyRefuses, RulesLost: report.RulesLost.Gone}
	for _, d := range report.Down {
		if d.Router != "" && isCause(d.Cause) {
			agent.Sessions = append(agent.Sessions, Session(d))
		}
	}
	for _, s := range report.Settings {
		if s.Want != "" {
			agent.Settings = append(agent.Settings, Setting(s))
		}
	}
	return agent
}

// isCause reports whether a word is one of docs/reference/reasons.md: "lacks pod CIDRs" is of a session that is up.
func isCause(word string) bool {
	return word != "" && word[0] >= 'A' && word[0] <= 'Z' && !strings.Contains(word, " ")
}
