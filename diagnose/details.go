package diagnose

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/preview"
)

// NotAsked is a Node whose agent could not be asked.
type NotAsked struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Details is a list of one kind, and the Nodes that it lacks.
type Details[T any] struct {
	Items    []T        `json:"items"`
	NotAsked []NotAsked `json:"notAsked"` // sorted by Node
	Well     bool       `json:"-"`        // all items are as they should be, and everybody was asked
}

// NodesToAsk are the Nodes whose agents can be asked, sorted. One whose kubelet is not heard of would
// keep the others waiting.
func NodesToAsk(seen Observed) (out []string) {
	return slices.DeleteFunc(nodesExpected(seen), func(name string) bool { return seen.unheard(name) })
}

// unheard reports whether nothing is heard of a Node's kubelet.
func (o Observed) unheard(name string) bool {
	n, _ := o.node(name)
	return n.Kubelet.Status == "Unknown"
}

// nodesExpected are the Nodes of machines that are to have one, sorted.
func nodesExpected(seen Observed) (out []string) {
	if seen.Inventory == nil {
		return nil
	}
	for m, n := range match(seen).nodes {
		if machine, _ := seen.Inventory.Machine(m); machine.State == inventory.StateActive || machine.State == inventory.StateMaintenance {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// detailsOf lists the answers of agents, in the order of their Nodes.
func detailsOf[T any](seen Observed, answers map[string]Answer, items func(node string, a Agent) []T, well func(T) bool) Details[T] {
	details := Details[T]{Items: []T{}, NotAsked: notAsked(seen, answers)}
	for _, node := range nodesExpected(seen) {
		if answer := answerOf(answers, node); answer.Err == "" {
			details.Items = append(details.Items, items(node, answer.Agent)...)
		}
	}
	details.Well = len(details.NotAsked) == 0 && !slices.ContainsFunc(details.Items, func(item T) bool { return !well(item) })
	return details
}

func notAsked(seen Observed, answers map[string]Answer) []NotAsked {
	out := []NotAsked{}
	for _, node := range nodesExpected(seen) {
		switch answer := answerOf(answers, node); {
		case answer.Err == "":
		case seen.unheard(node):
			out = append(out, NotAsked{node, "its kubelet is not heard of"})
		default:
			out = append(out, NotAsked{node, answer.Err})
		}
	}
	return out
}

// SessionDetail is a session of a Node's agent.
type SessionDetail struct {
	Node string `json:"node"`
	AgentSession
}

// Sessions are all sessions of all agents.
func Sessions(seen Observed, answers map[string]Answer) Details[SessionDetail] {
	return detailsOf(seen, answers, func(node string, a Agent) (out []SessionDetail) {
		for _, s := range a.Sessions {
			out = append(out, SessionDetail{node, s})
		}
		return out
	}, func(s SessionDetail) bool { return s.Up && s.Refused == 0 })
}

// RouteDetail is an agent's part of the kernel's tables.
type RouteDetail struct {
	Node string `json:"node"`
	AgentRoutes
	Unrouted []AgentRefusal `json:"unrouted"` // pod CIDRs without a route
}

// Routes are the routes of all machines, in numbers, and those that are missing.
func Routes(seen Observed, answers map[string]Answer) Details[RouteDetail] {
	return detailsOf(seen, answers, func(node string, a Agent) []RouteDetail {
		return []RouteDetail{{node, a.Routes, a.Unrouted}}
	}, func(r RouteDetail) bool { return r.Wanted == r.Held && len(r.Unrouted) == 0 })
}

// NodeDetail is a Node, and what its agent says of its machine.
type NodeDetail struct {
	Node    string     `json:"node"`
	Machine string     `json:"machine"` // empty: it is none
	Rack    string     `json:"rack"`
	State   string     `json:"state"`
	Reason  string     `json:"reason"`          // of the state
	Since   *time.Time `json:"since,omitempty"` // of maintenance or off; nil: not known
	Kubelet string     `json:"kubelet"`         // Ready, NotReady or Unknown
	Fabric  string     `json:"fabric"`          // the reason of FabricReady; empty: nobody has said anything
	Message string     `json:"message"`         // of FabricReady
	Image   string     `json:"image"`           // of the agent
	AgentDetail
	fabricReady bool
}

// AgentDetail is the report of an agent on its machine.
type AgentDetail struct {
	Asked      bool     `json:"asked"` // what follows is known
	SessionsUp int      `json:"sessionsUp"`
	Sessions   int      `json:"sessions"`
	RoutesHeld int      `json:"routesHeld"`
	Routes     int      `json:"routes"`
	WaitingFor string   `json:"waitingFor"`
	FromDisk   bool     `json:"fromDisk"`
	ProxyWell  bool     `json:"proxyHealthy"`
	Settings   []string `json:"settings"` // of the kernel, that keep packets from pods
	NotServing int      `json:"overdue"`  // VIPs that are announced although kube-proxy's rules were not seen
}

// Nodes are all Nodes, sorted by name.
func Nodes(seen Observed, answers map[string]Answer) Details[NodeDetail] {
	details := Details[NodeDetail]{Items: []NodeDetail{}, NotAsked: notAsked(seen, answers)}
	details.Well = len(details.NotAsked) == 0
	for _, n := range seen.Nodes {
		item := nodeDetail(seen, n)
		if answer := answerOf(answers, n.Name); answer.Err == "" {
			item.AgentDetail = agentDetail(answer.Agent)
		}
		details.Items = append(details.Items, item)
		details.Well = details.Well && item.well()
	}
	return details
}

func nodeDetail(seen Observed, given Node) NodeDetail {
	detail := NodeDetail{Node: given.Name, Fabric: given.Fabric.Reason, Message: given.Fabric.Message, fabricReady: given.Fabric.isTrue(), AgentDetail: AgentDetail{Settings: []string{}}}
	detail.Kubelet = map[string]string{"True": "Ready", "False": "NotReady"}[given.Kubelet.Status]
	detail.Kubelet = cmp.Or(detail.Kubelet, "Unknown")
	if i := slices.IndexFunc(seen.Agents, func(p Pod) bool { return p.Node == given.Name }); i >= 0 {
		detail.Image = seen.Agents[i].Image
	}
	if seen.Inventory == nil {
		return detail
	}
	if m, err := seen.Inventory.Identify(given.NodeIdentity); err == nil {
		detail.Machine, detail.Rack, detail.State, detail.Reason, detail.Since = m.Name, m.Rack, string(m.State), m.Reason, since(m, given)
	}
	return detail
}

func agentDetail(agent Agent) AgentDetail {
	detail := AgentDetail{
		Asked: true, Sessions: len(agent.Sessions), RoutesHeld: agent.Routes.Held, Routes: agent.Routes.Wanted,
		WaitingFor: agent.WaitingFor, FromDisk: agent.FromDisk, ProxyWell: agent.ProxyHealthy, NotServing: len(agent.Overdue),
		Settings: append([]string{}, agent.Settings...),
	}
	for _, s := range agent.Sessions {
		if s.Up {
			detail.SessionsUp++
		}
	}
	return detail
}

// well reports whether an agent has all that it wants, as far as it was asked.
func (d AgentDetail) well() bool {
	return !d.Asked || d.SessionsUp == d.Sessions && d.RoutesHeld == d.Routes && d.WaitingFor == "" && d.ProxyWell && !d.FromDisk && len(d.Settings) == 0 && d.NotServing == 0
}

// well reports whether a Node is as it should be. Of one that is out of service nothing is asked.
func (d NodeDetail) well() bool {
	switch inventory.State(d.State) {
	case inventory.StateActive, inventory.StateMaintenance:
		return d.Kubelet == "Ready" && d.fabricReady && d.AgentDetail.well()
	case "":
		return false
	default:
		return true
	}
}

// VIPDetail is a VIP in use, who is to announce it and who does.
type VIPDetail struct {
	VIP      netip.Addr `json:"vip"`
	Services []string   `json:"services"`
	Pool     string     `json:"pool"`    // empty: no pool has it
	Planned  []string   `json:"planned"` // machines that are to announce it
	Routers  []string   `json:"routers"` // that are to hear of it
	// Announced are the Nodes whose agents have it in the adj-RIB-out of a session that is up.
	Announced []string `json:"announced"`
	Reason    string   `json:"reason,omitempty"` // why nobody is to announce it
	Message   string   `json:"message,omitempty"`
	known     bool     // an agent was asked
}

// VIPs returns the VIPs in use, sorted.
func VIPs(seen Observed, answers map[string]Answer) Details[VIPDetail] {
	details := Details[VIPDetail]{Items: []VIPDetail{}, NotAsked: notAsked(seen, answers)}
	details.Well = len(details.NotAsked) == 0 && seen.Planned && seen.Inventory != nil
	if !seen.Planned || seen.Inventory == nil {
		return details
	}
	not := map[netip.Addr]preview.Unannounced{}
	for _, u := range preview.UnannouncedOf(seen.Inventory, seen.Cluster) {
		not[u.Addr] = u
	}
	announcing, known := announcers(answers)
	for _, v := range preview.Of(seen.Inventory, seen.Cluster, preview.Failures{}).VIPs {
		item := vipDetail(seen, v)
		item.known = known
		item.Announced = append(item.Announced, announcing(v.Addr)...)
		if u, is := not[v.Addr]; is {
			item.Reason, item.Message = string(u.Reason), whyOf(u)
		}
		details.Items = append(details.Items, item)
		details.Well = details.Well && item.well()
	}
	return details
}

func vipDetail(seen Observed, v preview.VIP) VIPDetail {
	detail := VIPDetail{VIP: v.Addr, Services: strings.Split(holders(v.Services), ", "), Planned: []string{}, Routers: []string{}, Announced: []string{}}
	if pool, within := seen.Inventory.PoolOf(v.Addr); within {
		detail.Pool = pool.Name
	}
	for _, by := range v.By {
		detail.Planned, detail.Routers = append(detail.Planned, by.Machine), append(detail.Routers, by.Router)
	}
	slices.Sort(detail.Routers)
	detail.Planned, detail.Routers = slices.Compact(detail.Planned), slices.Compact(detail.Routers)
	return detail
}

// By counts the machines that announce it; empty: no agent was asked.
func (d VIPDetail) By() string {
	if !d.known {
		return ""
	}
	return strconv.Itoa(len(d.Announced))
}

func (d VIPDetail) well() bool {
	return d.Reason == "" && (!d.known || len(d.Announced) >= len(d.Planned))
}

// announcers returns which Nodes' agents announce an address, and whether any agent was asked.
func announcers(answers map[string]Answer) (of func(netip.Addr) []string, known bool) {
	by := map[netip.Prefix][]string{}
	lengths := map[int]bool{} // of prefixes, so that an address is looked up a few times only
	for node, answer := range answers {
		known = known || answer.Err == ""
		for _, l := range answer.Agent.Links {
			for _, v := range l.VIPs {
				if a, err := netip.ParseAddr(v.VIP); err == nil && v.Answers {
					p := netip.PrefixFrom(a, a.BitLen())
					by[p], lengths[p.Bits()] = append(by[p], node), true
				}
			}
		}
		for _, s := range answer.Agent.Sessions {
			if !s.Up {
				continue
			}
			for _, p := range s.Announced {
				by[p], lengths[p.Bits()] = append(by[p], node), true
			}
		}
	}
	return func(a netip.Addr) (nodes []string) {
		for bits := range lengths {
			if p, err := a.Prefix(bits); err == nil {
				nodes = append(nodes, by[p]...)
			}
		}
		return inventory.SortedOnce(nodes)
	}, known
}

// PoolDetail is the state of a pool for one family.
type PoolDetail struct {
	Pool  string `json:"pool"`
	State string `json:"state"`
	Stock
	VIPs int  `json:"vips"` // of all families that are held
	Full bool `json:"full"` // or nearly so
}

// Pools are the pools with what is left of them.
func Pools(seen Observed) Details[PoolDetail] {
	details := Details[PoolDetail]{Items: []PoolDetail{}, NotAsked: []NotAsked{}, Well: true}
	if seen.Inventory == nil {
		details.Well = false
		return details
	}
	for _, pool := range poolsOf(seen) {
		for _, s := range pool.Families {
			full := len(poolFindings([]Pool{{Name: pool.Name, State: pool.State, Families: []Stock{s}}})) > 0
			details.Items = append(details.Items, PoolDetail{pool.Name, pool.State, s, pool.VIPs, full})
			details.Well = details.Well && !full
		}
		if len(pool.Families) == 0 {
			details.Items = append(details.Items, PoolDetail{Pool: pool.Name, State: pool.State, VIPs: pool.VIPs})
			details.Well = details.Well && pool.Name != ""
		}
	}
	return details
}
