package doctor

import (
	"fmt"
	"strings"

	"plinth.dev/plinth/lb"
)

// eachAgent finds something in what agents say.
func eachAgent(find func(Node, Agent) []Finding) func(Cluster) []Finding {
	return eachNode(func(_ Cluster, n Node) []Finding {
		if n.Agent == nil {
			return nil
		}
		return find(n, *n.Agent)
	})
}

var routerSilent = eachAgent(func(n Node, a Agent) (out []Finding) {
	for _, s := range a.Sessions {
		out = append(out, onNode(n, mendSession(s), "its session with router %s, %s, is down: %s", s.Router, s.Peer, s.Cause))
	}
	return out
})

// mendSession returns the steps that mend a session, by the cause for which it is down.
func mendSession(session Session) []Mend {
	explain := run("plinth explain", Quoted(session.Cause))
	switch session.Cause {
	case "PasswordMissing":
		return []Mend{run("plinth explain passwordFrom"), say("and make the Secret, in the namespace of Plinth, that the inventory names for router " + session.Router)}
	case "SessionTaken":
		return []Mend{explain, say("docs/guides/other-bgp-speakers.md")}
	}
	return []Mend{run("plinth router-config", Quoted(session.Router), "cluster"), say("load that on the router, or see there what differs"), explain}
}

// linkFindings returns findings on those link problems for which mend has steps.
func linkFindings(n Node, a Agent, mend func(lb.LinkProblem) []Mend, message func(lb.LinkProblem) string) (out []Finding) {
	for _, p := range a.Links {
		if steps := mend(p); steps != nil {
			out = append(out, onNode(n, steps, "%s", message(p)))
		}
	}
	return out
}

var addressAnswers = eachAgent(func(n Node, a Agent) []Finding {
	return linkFindings(n, a, func(p lb.LinkProblem) []Mend {
		if p.Reason != lb.AddressConflict && p.Reason != lb.AnsweredByOther {
			return nil
		}
		return []Mend{say("give that host another address, or put " + p.On + " into exclude of its pool")}
	}, func(p lb.LinkProblem) string {
		return strings.TrimSpace(fmt.Sprintf("VIP %s is answered for by another host: %s %s", p.On, p.Reason, p.Detail))
	})
})

var addressOnInterface = eachAgent(func(n Node, a Agent) []Finding {
	return linkFindings(n, a, func(p lb.LinkProblem) []Mend {
		vip, is := p.VIP()
		if !is || p.Reason != lb.AddressOnInterface {
			return nil
		}
		if p.Detail == "kube-ipvs0" || p.Detail == "kube-dummy-if" {
			return []Mend{say("set strictARP: true in kube-proxy's configuration, or have kube-router set arp_ignore")}
		}
		from := ""
		if p.Detail != "" {
			from = " dev " + Quoted(p.Detail)
		}
		return []Mend{runOn(n.Name, "ip address show to "+vip.String()),
			say("where a balancer set it, such as kube-vip, take over from it by docs/guides/migrate-on-link.md, so that connections outlast it; then ip address del " + single(vip).String() + from + " takes away what is left over")}
	}, func(p lb.LinkProblem) string {
		return strings.TrimSpace("VIP " + p.On + " is an address of an interface of its machine " + p.Detail)
	})
})

// linkBroken tells of all other problems of links. That another machine is the owner is none.
var linkBroken = eachAgent(func(n Node, a Agent) []Finding {
	return linkFindings(n, a, func(p lb.LinkProblem) []Mend {
		switch p.Reason {
		case lb.AddressConflict, lb.AnsweredByOther, lb.AddressOnInterface:
			return nil
		case lb.NoCarrier:
			return []Mend{runOn(n.Name, "ip -brief link"), say("and plug in the cable, or set the interface up")}
		default:
			return []Mend{run("plinth explain", Quoted(string(p.Reason)))}
		}
	}, func(p lb.LinkProblem) string {
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", p.On, p.Reason, p.Detail))
	})
})

var kernelSettings = eachAgent(func(n Node, a Agent) (out []Finding) {
	for _, s := range a.Settings {
		mend := setOn(n, s)
		if s.Name == "net.ipv6.conf.all.forwarding" {
			mend = append(advertisementsOn(n, a), mend...)
		}
		out = append(out, onNode(n, mend, "%s is %s and should be %s", s.Name, s.Value, s.Want))
	}
	return out
})

// setOn changes a setting now, and from the next boot on.
func setOn(n Node, s Setting) []Mend {
	want, _, _ := strings.Cut(s.Want, " ") // "0 or 2"
	now, boot := SetSysctl(s.Name, want)
	return []Mend{runOn(n.Name, now), runOn(n.Name, boot)}
}

// advertisementsOn returns the steps that come before forwarding of IPv6: the kernel forgets default routes of links whose accept_ra is
// not 2 as soon as it forwards.
func advertisementsOn(n Node, a Agent) (mend []Mend) {
	for _, s := range a.Settings {
		if strings.HasSuffix(s.Name, "accept_ra") {
			mend = append(mend, setOn(n, s)...)
		}
	}
	return mend
}

var proxyUnhealthy = eachAgent(func(n Node, a Agent) []Finding {
	if !a.ProxyRefuses {
		return nil
	}
	return []Finding{onNode(n, []Mend{run("plinth explain", string(lb.ProxyUnhealthy)), say("the log of kube-proxy on this Node has the reason, unless the Node is being deleted or bears the taint ToBeDeletedByClusterAutoscaler")}, lb.ProxyRefusal)}
})

var proxyRulesLost = eachAgent(func(n Node, a Agent) []Finding {
	if a.RulesLost == 0 {
		return nil
	}
	return []Finding{onNode(n, []Mend{kubectl(kubeSystem, "delete pod -l k8s-app=kube-proxy", "--field-selector", Quoted("spec.nodeName="+n.Name))}, "kube-proxy's rules are gone for VIPs: %d", a.RulesLost)}
})
