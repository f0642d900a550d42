package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
)

// announcing is an agent that has sessions and announces the VIP.
func announcing() Answer {
	return Answer{Agent: Agent{Ready: true, Routes: AgentRoutes{Wanted: 2, Held: 2}, Sessions: []AgentSession{
		{Router: "gateway", Address: "192.168.1.1", Up: true, Announced: []netip.Prefix{netip.MustParsePrefix("192.168.50.0/30")}},
	}}}
}

// refusing is an agent that does not announce it, for a reason.
func refusing(reason lb.Reason) Answer {
	a := announcing()
	a.Agent.Sessions[0].Announced, a.Agent.Refusals = nil, []AgentRefusal{{VIP: webVIP.String(), Reason: string(reason)}}
	return a
}

// sessionless is an agent whose session is down.
func sessionless(cause string) Answer {
	a := announcing()
	s := &a.Agent.Sessions[0]
	s.Up, s.Announced, s.Cause, s.Detail = false, nil, cause, "of the router"
	return a
}

// marks are a chain in short: the steps that hold by their number, then the first that does not.
func marks(c Chain) string {
	for i, l := range c.Links {
		if l.Mark != LinkOK {
			for _, after := range c.Links[i+1:] {
				if l.Mark == LinkBroken && after.Mark != LinkNotAsked {
					return fmt.Sprintf("%s is broken, and %s is %s", l.Step, after.Step, after.Mark)
				}
			}
			return strings.Join(strings.Fields(fmt.Sprintf("%s: %s: %s %s", l.Step, l.Mark, l.Reason, l.Text)), " ")
		}
	}
	return "ok"
}

func TestWhyNamesTheFirstLinkThatDoesNotHold(t *testing.T) {
	all := map[string]Answer{"nuc1": announcing(), "nuc2": announcing(), "nuc5": announcing()}
	other := lb.ServiceKey{Namespace: "prod", Name: "other"}
	service := func(s Observed, a map[string]Answer) Chain { return WhyService(s, web, a) }
	vip := func(s Observed, a map[string]Answer) Chain { return WhyVIP(s, webVIP, a) }
	node := func(s Observed, a map[string]Answer) Chain { return WhyNode(s, "nuc1", a) }
	router := func(s Observed, a map[string]Answer) Chain { return WhyRouter(s, "gateway", a) }
	for _, c := range []struct {
		name   string
		ask    func(Observed, map[string]Answer) Chain
		change func(*Observed, map[string]Answer)
		want   string
	}{
		{"all is well", service, nil, "ok"},
		{"nothing is in force", service, func(s *Observed, _ map[string]Answer) { s.Inventory = nil }, "inventory: broken: NoInventory no inventory is in force"},
		{"EndpointSlices may not be read", service, func(s *Observed, _ map[string]Answer) { s.Planned, s.NotKnown = false, []string{"jane may not"} }, "inventory: broken: jane may not"},
		{"there is no such Service", func(s Observed, a map[string]Answer) Chain { return WhyService(s, other, a) }, nil, "Service: broken: there is no such Service"},
		{"another program's class", service, func(s *Observed, _ map[string]Answer) { s.Services[0].Class = "example.com/x" }, "Service: broken: its class is example.com/x"},
		{"the pool does not let it in", service, func(s *Observed, _ map[string]Answer) {
			s.Services[0].Allocated = Condition{Status: "False", Reason: "NamespaceNotAllowed", Message: "pool default: NamespaceNotAllowed"}
			s.Cluster.Services = nil
		}, "pool: broken: NamespaceNotAllowed"},
		{"it has one address of two", service, func(s *Observed, _ map[string]Answer) {
			s.Services[0].Allocated = Condition{Status: "False", Reason: "PoolLacksFamily", Message: "pool default: PoolLacksFamily (IPv6)"}
		}, "pool: degraded: PoolLacksFamily it holds 192.168.50.1; pool default: PoolLacksFamily (IPv6)"},
		{"a label keeps kube-proxy from it", service, func(s *Observed, _ map[string]Answer) { s.Services[0].Proxy = "other" }, "Service: degraded: ServedByOtherProxy its label"},
		{"a label names no other proxy", service, func(s *Observed, _ map[string]Answer) { s.Services[0].Proxy = lb.UnnamedProxy }, "Service: degraded: ServedByOtherProxy its label service.kubernetes.io/service-proxy-name says that another program"},
		{"it is labelled headless", service, func(s *Observed, _ map[string]Answer) { s.Services[0].Proxy = lb.NoProxy }, "Service: degraded: LabelledHeadless its label service.kubernetes.io/headless keeps kube-proxy"},
		{"its endpoints are in slices that its proxy does not follow", service, func(s *Observed, _ map[string]Answer) {
			s.Cluster.Services[0].Endpoints = map[lb.Family]advertise.Spread{lb.IPv4: {NotFollowed: true}}
		}, "endpoints: broken: EndpointsNotFollowed 192.168.50.1: its Service's proxy does not follow"},
		{"the rules of all machines are gone, and another proxy serves it", service, func(s *Observed, _ map[string]Answer) {
			s.Cluster.Services[0].Labels = map[string]string{lb.ServiceProxyLabel: "other"}
			for i := range s.Nodes {
				s.Nodes[i].Fabric.Message += "; " + lb.RulesLost{Gone: 1, Of: 1}.String()
			}
		}, "ok"},
		{"agents have no pods, and answer", node, func(s *Observed, _ map[string]Answer) { s.Agents = nil }, "ok"},
		{"agents have no pods, and nobody can be asked", node, func(s *Observed, a map[string]Answer) {
			s.Agents, a["nuc1"] = nil, Answer{Err: "no answer", Help: "look there"}
		}, "agent: unknown: no answer"},
		{"its agent fell silent", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Kubelet.Heard, s.Nodes[0].Fabric.Heard = noon, noon.Add(-time.Hour)
		}, "fabric: broken: AgentSilent its agent has said nothing for 1h0m0s longer than its kubelet"},
		{"the rules of its machine are gone", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Fabric.Message += "; " + lb.RulesLost{Gone: 1, Of: 1}.String()
		},
			"fabric: degraded: ProxyRulesLost"},
		{"its kube-proxy does not serve", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Fabric.Message += "; " + lb.Report{ProxyRefuses: true}.Besides()
		},
			"fabric: degraded: ProxyUnhealthy"},
		{"the kube-proxy of one machine does not serve", service, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Fabric.Message += "; " + lb.Report{ProxyRefuses: true}.Besides()
		},
			"machines: degraded: 1 of 2 can announce it; nuc1: kube-proxy says that it does not serve"},
		{"its router takes no IPv6", node, func(s *Observed, _ map[string]Answer) { s.withholds(0) },
			"fabric: degraded: FamilyNotNegotiated withheld from gateway/192.168.1.1 FamilyNotNegotiated IPv6"},
		{"the rules of one machine are gone", service, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Fabric.Message += "; " + lb.RulesLost{Gone: 1, Of: 1}.String()
		},
			"machines: degraded: 1 of 2 can announce it; nuc1: kube-proxy's rules are gone"},
		{"the session of one machine is down that would carry it", service, func(s *Observed, _ map[string]Answer) {
			s.Cluster.Nodes["nuc1"] = preview.Node{Identity: s.Nodes[0].NodeIdentity, Down: []preview.SessionEnd{{Router: "gateway", Peer: netip.MustParseAddr("192.168.1.1")}}}
		},
			"machines: degraded: 1 of 2 can announce it; nuc1: each of its sessions that carry 192.168.50.1 is down"},
		{"nobody has answered it", service, func(s *Observed, _ map[string]Answer) {
			s.Services[0].Allocated, s.Cluster.Services = Condition{}, nil
		}, "pool: broken: ServiceUnanswered nobody has answered it"},
		{"no IPAddress names it", service, func(s *Observed, _ map[string]Answer) { s.Cluster.Services = nil }, "address: broken: StatusNotHeld its status shows 192.168.50.1"},
		{"its status is empty", service, func(s *Observed, _ map[string]Answer) { s.Services[0].Shown = nil }, "status: broken: the status of prod/web does not show 192.168.50.1"},
		{"its pool is disabled", service, func(s *Observed, _ map[string]Answer) { s.Inventory.Pools[0].State = inventory.PoolDisabled }, "plan: broken: PoolIsDisabled no machine would announce 192.168.50.1: its pool is disabled"},
		{"no pool has its address", service, func(s *Observed, _ map[string]Answer) { s.Inventory.Pools = nil }, "plan: broken: VIPOutsidePools"},
		{"no rack announces its pool", service, func(s *Observed, _ map[string]Answer) {
			s.Inventory.Racks[0].Machines[1].State, s.Inventory.Pools[0].Advertise[0].Racks = inventory.StateActive, []string{"r9"}
		}, "plan: broken: PoolLimitedToRacks"},
		{"it has no endpoint", service, func(s *Observed, _ map[string]Answer) { s.Cluster.Services[0].Endpoints = nil }, "endpoints: broken: NoEndpoint 192.168.50.1: its Service has no endpoint"},
		{"its endpoints are on no machine that announces", service, func(s *Observed, _ map[string]Answer) {
			s.Cluster.Services[0].LocalTraffic = true
			s.Cluster.Services[0].Endpoints = map[lb.Family]advertise.Spread{lb.IPv4: {Ready: map[string]int{"nuc2": 1}}}
		}, "endpoints: broken: NoLocalEndpoint"},
		{"no machine has a session", service, func(s *Observed, _ map[string]Answer) {
			s.sessionsDown(0, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
			s.sessionsDown(2, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
		}, "machines: broken: NoSessionUp nuc1: routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch, nuc5: routes"},
		{"the agent of its only machine has never said anything", service, func(s *Observed, _ map[string]Answer) {
			s.Inventory.Racks[0].Machines[4].State, s.Nodes[0].Fabric = inventory.StateOff, Condition{}
		}, "machines: broken: NoAgent nuc1: no agent has ever said anything"},
		{"one machine has none", service, func(s *Observed, _ map[string]Answer) {
			s.sessionsDown(2, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
		}, "machines: degraded: 1 of 2 can announce it"},
		{"no agent was asked", service, func(_ *Observed, a map[string]Answer) { clear(a) }, "announced: unknown: of 2 agents asked, 0 have it in the adj-RIB-out of a session; nuc1: it was not asked"},
		{"agents cannot be asked", service, func(_ *Observed, a map[string]Answer) {
			a["nuc1"], a["nuc5"] = Answer{Err: "jane may not"}, Answer{Err: "jane may not"}
		}, "announced: unknown: of 2 agents asked, 0 have it in the adj-RIB-out of a session; nuc1: jane may not, nuc5: jane may not"},
		{"agents wait for kube-proxy", service, func(_ *Observed, a map[string]Answer) {
			a["nuc1"], a["nuc5"] = refusing(lb.ProxyRulesPending), refusing(lb.ProxyUnhealthy)
		}, "announced: broken: of 2 agents asked, 0 have it in the adj-RIB-out of a session; nuc1: 192.168.50.1: ProxyRulesPending, nuc5: 192.168.50.1: ProxyUnhealthy"},
		{"one agent's session went down a moment ago", service, func(_ *Observed, a map[string]Answer) { a["nuc5"] = sessionless("PathDown") }, "announced: degraded: of 2 agents asked, 1 has it in the adj-RIB-out of a session: nuc1; nuc5: gateway (192.168.1.1) is down: PathDown"},

		{"all is well", vip, nil, "ok"},
		{"nobody holds it", func(s Observed, a map[string]Answer) Chain { return WhyVIP(s, netip.MustParseAddr("192.168.50.9"), a) }, nil, "address: broken: of pool default, and nobody holds it"},
		{"no pool has it and nobody holds it", func(s Observed, a map[string]Answer) Chain { return WhyVIP(s, netip.MustParseAddr("192.0.2.9"), a) }, nil, "address: broken: VIPOutsidePools no pool has it, and nobody holds it"},
		{"its holder is gone", vip, func(s *Observed, _ map[string]Answer) { s.Cluster.Services = nil }, "address: broken: of pool default; its IPAddress names a Service that is gone"},
		{"its pool is shrunk", vip, func(s *Observed, _ map[string]Answer) { s.Inventory.Pools = nil }, "plan: broken: VIPOutsidePools"},
		{"its holder does not show it", vip, func(s *Observed, _ map[string]Answer) { s.Services[0].Shown = nil }, "status: broken: the status of prod/web does not show"},

		{"all is well", node, nil, "ok"},
		{"there is no such Node", func(s Observed, a map[string]Answer) Chain { return WhyNode(s, "nuc9", a) }, nil, "Node: broken: there is no Node of that name, and no machine"},
		{"its machine is there, and it is not", node, func(s *Observed, _ map[string]Answer) { s.Nodes = s.Nodes[1:] }, "Node: broken: MachineWithoutNode machine nuc1 (shelf) has no Node"},
		{"it is no machine", func(s Observed, a map[string]Answer) Chain { return WhyNode(s, "x", a) }, func(s *Observed, _ map[string]Answer) { s.Nodes = append(s.Nodes, nodeThatIs("x")) }, "machine: broken: NoMachine the inventory has no such machine"},
		{"another is in its place", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].ProviderID, s.Inventory.Racks[0].Machines[0].ID = "plinth://nuc1", "NEW"
		}, "machine: broken: MachineReplaced it has the provider ID plinth://nuc1"},
		{"two claim its machine", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[1].ProviderID, s.Nodes[1].Name = "plinth://nuc1", "other"
		}, "machine: broken: Ambiguous machine nuc1 is claimed by the Nodes nuc1 and other"},
		{"its board is another one", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].SystemUUID, s.Nodes[0].ProviderID, s.Inventory.Racks[0].Machines[0].SystemUUID = inventory.ReportedUUID("a"), "plinth://nuc1", inventory.ReportedUUID("b")
		}, "machine: broken: SystemUUIDDiffers"},
		{"it is held", node, func(s *Observed, _ map[string]Answer) { s.Inventory.Racks[0].Machines[0].Held = true }, "machine: broken: MachineHeld machine nuc1 is not in the inventory any more"},
		{"it is in maintenance", func(s Observed, a map[string]Answer) Chain { return WhyNode(s, "nuc2", a) }, func(s *Observed, _ map[string]Answer) {
			s.Inventory.Racks[0].Machines[1].Reason, s.Nodes[1].Tainted = "PSU swap", noon
		}, "state: broken: MachineNotActive maintenance since 2026-11-20T12:00:00Z: PSU swap"},
		{"it is excluded", node, func(s *Observed, _ map[string]Answer) { s.Nodes[0].Excluded = true }, "state: degraded: NodeExcluded"},
		{"its kubelet is not ready", node, func(s *Observed, _ map[string]Answer) {
			s.Nodes[0].Kubelet = Condition{Status: "Unknown", Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}
		}, "kubelet: broken: NodeNotReady Kubelet stopped"},
		{"it has no agent", node, func(s *Observed, _ map[string]Answer) { s.Agents = s.Agents[1:] }, "agent: broken: AgentMissing no pod of the agent is on this Node"},
		{"its agent does not run", node, func(s *Observed, _ map[string]Answer) { s.Agents[0].Pending = "ImagePullBackOff" }, "agent: broken: AgentNotRunning pod agent-1 does not run: ImagePullBackOff"},
		{"it has no session by the inventory", node, func(s *Observed, _ map[string]Answer) { s.Inventory.Racks[0].Peers = nil }, "fabric: broken: NoSession"},
		{"its agent has never said anything", node, func(s *Observed, _ map[string]Answer) { s.Nodes[0].Fabric = Condition{} }, "fabric: broken: AgentMissing its agent has never said anything"},
		{"its agent cannot be asked", node, func(_ *Observed, a map[string]Answer) { a["nuc1"] = Answer{Err: "jane may not"} }, "sessions: unknown: jane may not"},
		{"its agent waits", node, func(_ *Observed, a map[string]Answer) { a["nuc1"] = Answer{Agent: Agent{WaitingFor: "the inventory"}} }, "sessions: broken: the agent waits for the inventory"},
		{"its session is down", node, func(_ *Observed, a map[string]Answer) { a["nuc1"] = sessionless("ASNMismatch") }, "sessions: broken: ASNMismatch gateway (192.168.1.1) is down: ASNMismatch: of the router"},
		{"one of its sessions is down", node, func(_ *Observed, a map[string]Answer) {
			x := a["nuc1"]
			x.Agent.Sessions = append(x.Agent.Sessions, sessionless("NoAnswer").Agent.Sessions...)
			a["nuc1"] = x
		}, "sessions: degraded: NoAnswer 1 of 2 are up"},
		{"routes are missing", node, func(_ *Observed, a map[string]Answer) {
			x := a["nuc1"]
			x.Agent.Routes = AgentRoutes{Wanted: 2, Held: 1, Failed: []string{"10.0.0.0/24: file exists"}}
			a["nuc1"] = x
		}, "routes: degraded: 1 of 2 in the kernel; 10.0.0.0/24: file exists"},
		{"the kernel is set otherwise", node, func(_ *Observed, a map[string]Answer) {
			x := a["nuc1"]
			x.Agent.Settings = []string{"net.ipv4.ip_forward is 0, want 1"}
			a["nuc1"] = x
		}, "kernel: degraded: KernelSettings net.ipv4.ip_forward is 0, want 1"},

		{"all is well", router, nil, "ok"},
		{"there is no such router", func(s Observed, a map[string]Answer) Chain { return WhyRouter(s, "tor", a) }, nil, "inventory: broken: it has no router of that name"},
		{"no machine has a session with it", router, func(s *Observed, _ map[string]Answer) { s.Inventory.Racks[0].Peers = nil }, "machines: broken: NoSession no active machine"},
		{"its machines have no Nodes", router, func(s *Observed, _ map[string]Answer) { s.Nodes = nil }, "machines: broken: MachineWithoutNode 2 machines are to have a session with it, and none has a Node"},
		{"one of its machines has no Node", router, func(s *Observed, _ map[string]Answer) { s.Nodes = s.Nodes[1:] }, "machines: degraded: 1 of 2 that are to have a session with it have a Node"},
		{"agents say that it is down", router, func(s *Observed, a map[string]Answer) {
			s.sessionsDown(0, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
			a["nuc1"] = sessionless("ASNMismatch")
		}, "fabric: degraded: Degraded of 2 fabrics 1 are ready; nuc1: routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch"},
		{"all its sessions went down a moment ago", router, func(_ *Observed, a map[string]Answer) {
			a["nuc1"], a["nuc5"] = sessionless("HoldTimerExpired"), sessionless("HoldTimerExpired")
		}, "sessions: broken: HoldTimerExpired of 2 agents asked: 0 sessions up; nuc1: gateway (192.168.1.1) is down: HoldTimerExpired"},
		{"one session is down", router, func(_ *Observed, a map[string]Answer) { a["nuc1"] = sessionless("PathDown") }, "sessions: degraded: PathDown of 2 agents asked: 1 session up; nuc1"},
		{"agents cannot be asked", router, func(_ *Observed, a map[string]Answer) { a["nuc1"], a["nuc5"] = Answer{Err: "no"}, Answer{Err: "no"} }, "sessions: unknown: of 2 agents asked: 0 sessions up; nuc1: no, nuc5: no"},
		{"nothing is announced to it", router, func(_ *Observed, a map[string]Answer) {
			a["nuc1"], a["nuc5"] = refusing(lb.NoEndpoint), refusing(lb.NoEndpoint)
		}, "announced: degraded: nothing is announced to it"},
		{"a prefix is kept back", router, func(_ *Observed, a map[string]Answer) {
			a["nuc1"].Agent.Sessions[0].Refusals = []AgentKept{{"192.168.50.1/32", "NoNextHop", "no IPv6 address"}}
		}, "announced: degraded: nuc1: 192.168.50.1/32 is kept back: NoNextHop: no IPv6 address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, answers := well(t), map[string]Answer{}
			for k := range all {
				answers[k] = announcing()
			}
			if c.change != nil {
				c.change(&seen, answers)
			}
			got := c.ask(seen, answers)
			if m := marks(got); !strings.HasPrefix(m, c.want) {
				t.Errorf("%s: %s, want %s", got.What, m, c.want)
			}
			if got.Well() != (c.want == "ok") {
				t.Errorf("well %t: %+v", got.Well(), got)
			}
		})
	}
}

// Only what has to be asked of agents is, and of few.
func TestWhyAsksAFewAgentsAndNoneBehindABrokenLink(t *testing.T) {
	seen := well(t)
	for what, c := range map[string]struct {
		chain Chain
		want  []string
	}{
		"svc":    {WhyService(seen, web, nil), []string{"nuc1", "nuc5"}},
		"vip":    {WhyVIP(seen, webVIP, nil), []string{"nuc1", "nuc5"}},
		"node":   {WhyNode(seen, "nuc1", nil), []string{"nuc1"}},
		"router": {WhyRouter(seen, "gateway", nil), []string{"nuc1", "nuc5"}},
		"broken": {WhyService(seen, lb.ServiceKey{}, nil), nil},
	} {
		if !slices.Equal(c.chain.Ask, c.want) {
			t.Errorf("%s: asks %v, want %v", what, c.chain.Ask, c.want)
		}
	}
	var nodes []Node
	for i := range 20 {
		nodes = append(nodes, nodeThatIs(fmt.Sprintf("n%02d", i)))
	}
	nodes[17].Fabric.Status = "False"
	if got := askedOf(nodes); len(got) != mostAsked || got[0] != "n17" {
		t.Errorf("of a router's machines it asks %v", got)
	}
}

func TestOfARouterWhoseMachinesNobodyCouldAskNothingIsSaid(t *testing.T) {
	seen, none := well(t), map[string]Answer{}
	for _, name := range []string{"nuc1", "nuc2", "nuc5"} {
		none[name] = Answer{Err: "no answer", Help: "look there"}
	}
	for _, l := range WhyRouter(seen, "gateway", none).Links[3:] {
		if l.Mark != LinkUnknown || l.Help != "look there" {
			t.Errorf("%+v", l)
		}
	}
}

// TestAServiceOfTwoFamiliesIsServedWhereEachVIPHasSomeMachine has each of two machines lose the sessions of one family.
func TestAServiceOfTwoFamiliesIsServedWhereEachVIPHasSomeMachine(t *testing.T) {
	text := strings.NewReplacer("address: 192.168.1.1,", `addresses: [192.168.1.1, "fd00::1"],`, "[192.168.1.11]", `[192.168.1.11, "fd00::11"]`,
		"[192.168.1.15]", `[192.168.1.15, "fd00::15"]`, "[192.168.50.0/26]", `[192.168.50.0/26, "fd00:50::/120"]`).Replace(shelf)
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(text)})
	if inv == nil {
		t.Fatal(problems)
	}
	seen, vips := well(t), []netip.Addr{webVIP, netip.MustParseAddr("fd00:50::1")}
	seen.Inventory = inv
	holder := &seen.Cluster.Services[0]
	holder.VIPs, holder.Endpoints[lb.IPv6] = vips, holder.Endpoints[lb.IPv4]
	lose := func(name string, peers ...string) {
		n := seen.Cluster.Nodes[name]
		n.Down = nil
		for _, peer := range peers {
			n.Down = append(n.Down, preview.SessionEnd{Router: "gateway", Peer: netip.MustParseAddr(peer)})
		}
		seen.Cluster.Nodes[name] = n
	}
	lose("nuc1", "fd00::1")
	lose("nuc5", "192.168.1.1")
	link, serving, served := machinesLink(seen, vips)
	if link.Mark != LinkDegraded || len(served) != 2 || !strings.HasPrefix(link.Text, "2 of 2 can announce it; ") || !slices.Equal(serving, []string{"nuc1", "nuc5"}) {
		t.Errorf("each VIP has a machine, %v serve: %+v", serving, link)
	}
	seen.Nodes[2].Kubelet.Status = "Unknown" // it may announce either
	if link, serving, served := machinesLink(seen, vips); link.Mark != LinkDegraded || !slices.Equal(serving, []string{"nuc1"}) || !slices.Equal(served, vips[:1]) {
		t.Errorf("of one that is not heard of, %v serve %v: %+v", serving, served, link)
	}
	seen.Nodes[2].Kubelet.Status = "True"
	lose("nuc5", "192.168.1.1", "fd00::1")
	if link, serving, _ := machinesLink(seen, vips); link.Mark != LinkBroken || link.Reason != string(lb.NoSessionUp) || len(serving) > 0 {
		t.Errorf("no machine has a session that carries one, %v serve: %+v", serving, link)
	}

	first, second := announcing(), announcing()
	second.Agent.Sessions[0].Announced = []netip.Prefix{netip.MustParsePrefix("fd00:50::/120")}
	for want, answers := range map[Mark]map[string]Answer{
		LinkDegraded: {"nuc1": first, "nuc5": second}, LinkBroken: {"nuc1": first, "nuc5": first}, LinkUnknown: {"nuc1": first, "nuc5": {Err: "silent"}},
	} {
		if link := announcedLink(vips, []string{"nuc1", "nuc5"}, answers); link.Mark != want {
			t.Errorf("want %s: %+v", want, link)
		}
	}
}
