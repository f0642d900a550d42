package diagnose

import (
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
)

const attic = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks: [{name: attic, subnets: [192.168.1.0/24], machines: [{name: pi1, addresses: [192.168.1.11]}, {name: pi2, addresses: [192.168.1.12]}]}]
  pools: [{name: lan, addresses: [192.168.1.200-192.168.1.219]}]
`

var linkVIP = netip.MustParseAddr("192.168.1.200")

// wellOnLink is a home without a router, in which there is nothing to be seen.
func wellOnLink(t *testing.T) Observed {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(attic)})
	if inv == nil {
		t.Fatal(problems)
	}
	seen := Observed{
		Inventory: inv, Edit: Edit{Ready: true, Generation: "7"}, Planned: true, Nodes: []Node{nodeThatIs("pi1"), nodeThatIs("pi2")}, Claimed: []netip.Addr{linkVIP},
		Services: []Service{{Key: web, Shown: []netip.Addr{linkVIP}, Allocated: Condition{Status: "True", Reason: "Allocated"}}},
	}
	seen.Cluster = preview.Cluster{Nodes: map[string]preview.Node{}, Homes: map[netip.Addr][]string{linkVIP: {"pi2", "pi1"}}, Services: []preview.Service{{
		Key: web, VIPs: []netip.Addr{linkVIP}, Endpoints: map[lb.Family]advertise.Spread{lb.IPv4: {Ready: map[string]int{"pi1": 1, "pi2": 1}}},
	}}}
	for i, n := range seen.Nodes {
		seen.Nodes[i].Fabric.Message = "routes 0/0, sessions 0/0"
		seen.Cluster.Nodes[n.Name] = preview.Node{Identity: n.NodeIdentity}
	}
	return seen
}

// onSubnet is an agent that answers for the VIP, or does not for a reason.
func onSubnet(reason lb.Reason) Answer {
	return Answer{Agent: Agent{Ready: true, Links: []AgentLink{{
		Subnet: "192.168.1.0/24", Interface: "eth0", Quorum: "majority", Witness: "none",
		VIPs: []AgentLinkVIP{{VIP: linkVIP.String(), Owner: "pi2", Answers: reason == "", Reason: string(reason)}},
	}}}}
}

func TestWhyFollowsAVIPToTheMachineThatAnswersForIt(t *testing.T) {
	service := func(s Observed, a map[string]Answer) Chain { return WhyService(s, web, a) }
	vip := func(s Observed, a map[string]Answer) Chain { return WhyVIP(s, linkVIP, a) }
	node := func(s Observed, a map[string]Answer) Chain { return WhyNode(s, "pi1", a) }
	says := func(s *Observed, node int, problem string) {
		s.Nodes[node].Fabric.Message = "routes 0/0, sessions 0/0; on link " + problem
	}
	for _, c := range []struct {
		name   string
		ask    func(Observed, map[string]Answer) Chain
		change func(*Observed, map[string]Answer)
		want   string
	}{
		{"all is well", service, func(*Observed, map[string]Answer) {}, "ok"},
		{"all is well", vip, func(*Observed, map[string]Answer) {}, "ok"},
		{"another answers than the first, since that was away", service, func(_ *Observed, a map[string]Answer) { a["pi1"], a["pi2"] = a["pi2"], a["pi1"] }, "ok"},
		{"nobody has an endpoint", service, func(s *Observed, _ map[string]Answer) { s.Cluster.Services[0].Endpoints = nil }, "endpoints: broken: NoEndpoint"},
		{"both machines are off", service, func(s *Observed, _ map[string]Answer) {
			for i := range s.Inventory.Racks[0].Machines {
				s.Inventory.Racks[0].Machines[i].State = inventory.StateOff
			}
		}, "plan: broken: MachineNotActive no machine would announce 192.168.1.200"},
		{"one has no carrier", service, func(s *Observed, _ map[string]Answer) { says(s, 0, "192.168.1.0/24 NoCarrier") }, "on the link: degraded: 1 machine can answer for it: pi2; pi1: 192.168.1.0/24 NoCarrier"},
		{"none sees the gateway", service, func(s *Observed, _ map[string]Answer) {
			says(s, 0, "192.168.1.0/24 WitnessSilent")
			says(s, 1, "192.168.1.0/24 WitnessSilent")
		}, "on the link: broken: WitnessSilent no machine answers; pi1: 192.168.1.0/24 WitnessSilent, pi2"},
		{"a foreign host has it, by the condition of the machine that saw it", service, func(s *Observed, _ map[string]Answer) {
			s.Cluster.Nodes["pi2"] = disputing(s.Cluster.Nodes["pi2"], "192.168.1.200 AddressConflict 02:00:00:00:00:aa")
		}, "answered: degraded: AddressConflict 192.168.1.200: not its owner alone has it: "},
		{"no agent was asked", service, func(_ *Observed, a map[string]Answer) { clear(a) }, "answered: unknown: of 0 agents asked none answers for 192.168.1.200, pi1: it was not asked"},
		{"nobody answers", service, func(_ *Observed, a map[string]Answer) {
			a["pi1"], a["pi2"] = onSubnet(lb.ProxyRulesPending), onSubnet(lb.ProxyRulesPending)
		},
			"answered: broken: NotOwner nobody answers for 192.168.1.200: pi1: ProxyRulesPending, pi2: ProxyRulesPending"},
		{"both answer", service, func(_ *Observed, a map[string]Answer) { a["pi1"] = onSubnet("") }, "answered: degraded: AnsweredByOther pi1, pi2 say that they answer"},
		{"a foreign host has it", service, func(_ *Observed, a map[string]Answer) {
			a["pi2"].Agent.Links[0].VIPs[0].Conflict = "02:00:00:00:00:aa"
		}, "answered: degraded: AddressConflict 192.168.1.200: 02:00:00:00:00:aa has it as well"},

		{"all is well", node, func(*Observed, map[string]Answer) {}, "ok"},
		{"it has said that its interface is not there", node, func(s *Observed, _ map[string]Answer) { says(s, 0, "192.168.1.0/24 NoInterface") }, "fabric: degraded: NoInterface on link 192.168.1.0/24 NoInterface"},
		{"its interface is not there", node, func(_ *Observed, a map[string]Answer) { a["pi1"].Agent.Links[0].Reason = "NoInterface" }, "links: degraded: NoInterface 192.168.1.0/24: NoInterface"},
		{"it may be cut off", node, func(_ *Observed, a map[string]Answer) { a["pi1"].Agent.Links[0].Quorum = "none" }, "links: degraded: NoMajority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, answers := wellOnLink(t), map[string]Answer{"pi1": onSubnet(lb.NotOwner), "pi2": onSubnet("")}
			c.change(&seen, answers)
			got := c.ask(seen, answers)
			if m := marks(got); !strings.HasPrefix(m, c.want) {
				t.Errorf("%s: %s, want %s", got.What, m, c.want)
			}
		})
	}
}

// disputing is a Node whose agent says this of its links.
func disputing(n preview.Node, problem string) preview.Node {
	n.LinkProblems = lb.ParseReport("routes 0/0, sessions 0/0; on link " + problem).Links
	return n
}

func TestVIPsOnLinksAreListedWithWhoAnswers(t *testing.T) {
	seen, answers := wellOnLink(t), map[string]Answer{"pi1": onSubnet(lb.NotOwner), "pi2": onSubnet("")}
	d := VIPs(seen, answers)
	if len(d.Items) != 1 || !d.Well || strings.Join(d.Items[0].Planned, " ") != "pi2" || strings.Join(d.Items[0].Announced, " ") != "pi2" || strings.Join(d.Items[0].Routers, " ") != "link 192.168.1.0/24" {
		t.Errorf("%+v", d)
	}
	answers["pi2"] = onSubnet(lb.NoCarrier)
	if d := VIPs(seen, answers); d.Well || len(d.Items[0].Announced) > 0 {
		t.Errorf("nobody answers, and all is well: %+v", d)
	}
	if chain := WhyService(seen, web, nil); strings.Join(chain.Ask, " ") != "pi1 pi2" {
		t.Errorf("it asks %v", chain.Ask)
	}
}
