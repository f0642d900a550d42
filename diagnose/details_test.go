package diagnose

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

// everybody has answered, and all is well.
func everybody() map[string]Answer {
	answers := map[string]Answer{}
	for _, node := range []string{"nuc1", "nuc2", "nuc5"} {
		a := announcing()
		a.Agent.ProxyHealthy = true
		answers[node] = a
	}
	return answers
}

// changed has one answer be another.
func changed(answers map[string]Answer, node string, change func(*Agent)) {
	a := answers[node]
	change(&a.Agent)
	answers[node] = a
}

func TestDetailsSayWhatIsNotWell(t *testing.T) {
	sessions := func(s Observed, a map[string]Answer) (string, bool) {
		d := Sessions(s, a)
		var out []string
		for _, x := range d.Items {
			out = append(out, fmt.Sprintf("%s %s up %t %s", x.Node, x.Router, x.Up, x.Cause))
		}
		return fmt.Sprint(out, d.NotAsked), d.Well
	}
	vips := func(s Observed, a map[string]Answer) (string, bool) {
		d := VIPs(s, a)
		var out []string
		for _, x := range d.Items {
			out = append(out, fmt.Sprintf("%v of %s for %v planned %v to %v announced %v %s", x.VIP, x.Pool, x.Services, x.Planned, x.Routers, x.Announced, x.Reason))
		}
		return fmt.Sprint(out, d.NotAsked), d.Well
	}
	nodes := func(s Observed, a map[string]Answer) (string, bool) {
		d := Nodes(s, a)
		var out []string
		for _, x := range d.Items {
			out = append(out, fmt.Sprintf("%s %s %s %s %d/%d %d/%d %v %s", x.Node, x.State, x.Kubelet, x.Fabric, x.SessionsUp, x.Sessions, x.RoutesHeld, x.Routes, x.Settings, x.WaitingFor))
		}
		return fmt.Sprint(out, d.NotAsked), d.Well
	}
	routes := func(s Observed, a map[string]Answer) (string, bool) {
		d := Routes(s, a)
		var out []string
		for _, x := range d.Items {
			out = append(out, fmt.Sprintf("%s %d/%d %v %v", x.Node, x.Held, x.Wanted, x.Failed, x.Unrouted))
		}
		return fmt.Sprint(out, d.NotAsked), d.Well
	}
	pools := func(s Observed, _ map[string]Answer) (string, bool) {
		d := Pools(s)
		return fmt.Sprint(d.Items), d.Well
	}
	for _, c := range []struct {
		name   string
		of     func(Observed, map[string]Answer) (string, bool)
		change func(*Observed, map[string]Answer)
		want   string // is said
		well   bool
	}{
		{"all is well", sessions, nil, "[nuc1 gateway up true  nuc2 gateway up true  nuc5 gateway up true ] []", true},
		{"a session is down", sessions, func(_ *Observed, a map[string]Answer) { a["nuc2"] = sessionless("NoAnswer") }, "nuc2 gateway up false NoAnswer", false},
		{"a session keeps a prefix back", sessions, func(_ *Observed, a map[string]Answer) {
			changed(a, "nuc1", func(x *Agent) { x.Sessions[0].Refused = 1 })
		}, "nuc1 gateway", false},
		{"an agent could not be asked", sessions, func(_ *Observed, a map[string]Answer) { a["nuc2"] = Answer{Err: "jane may not"} }, "[{nuc2 jane may not}]", false},
		{"a kubelet is not heard of", sessions, func(s *Observed, a map[string]Answer) { s.Nodes[1].Kubelet.Status = "Unknown"; delete(a, "nuc2") }, "[{nuc2 its kubelet is not heard of}]", false},

		{"all is well", vips, nil, "[192.168.50.1 of default for [prod/web] planned [nuc1 nuc5] to [gateway] announced [nuc1 nuc2 nuc5] ] []", true},
		{"one machine does not announce", vips, func(_ *Observed, a map[string]Answer) {
			delete(a, "nuc2")
			a["nuc5"], a["nuc2"] = refusing("ProxyRulesPending"), refusing("MachineNotActive")
		}, "planned [nuc1 nuc5] to [gateway] announced [nuc1] ", false},
		{"nobody is to announce", vips, func(s *Observed, _ map[string]Answer) { s.Inventory.Pools[0].State = inventory.PoolDisabled }, "planned [] to [] announced [nuc1 nuc2 nuc5] PoolIsDisabled", false},
		{"no pool has it", vips, func(s *Observed, _ map[string]Answer) { s.Inventory.Pools = nil }, "192.168.50.1 of  for", false},
		{"nothing is known", vips, func(s *Observed, _ map[string]Answer) { s.Planned = false }, "[] []", false},

		{"all is well", nodes, nil, "[nuc1 active Ready AsPlanned 1/1 2/2 []  nuc2 maintenance Ready AsPlanned 1/1 2/2 []  nuc5 active Ready AsPlanned 1/1 2/2 [] ] []", true},
		{"settings of a kernel", nodes, func(_ *Observed, a map[string]Answer) {
			changed(a, "nuc1", func(x *Agent) { x.Settings = []string{"net.ipv4.ip_forward is 0"} })
		}, "nuc1 active Ready AsPlanned 1/1 2/2 [net.ipv4.ip_forward is 0]", false},
		{"an agent waits", nodes, func(_ *Observed, a map[string]Answer) { changed(a, "nuc1", func(x *Agent) { x.WaitingFor = "nodes" }) }, "2/2 [] nodes", false},
		{"kube-proxy does not work", nodes, func(_ *Observed, a map[string]Answer) { changed(a, "nuc1", func(x *Agent) { x.ProxyHealthy = false }) }, "", false},
		{"the API server is silent", nodes, func(_ *Observed, a map[string]Answer) { changed(a, "nuc1", func(x *Agent) { x.FromDisk = true }) }, "", false},
		{"rules are overdue", nodes, func(_ *Observed, a map[string]Answer) {
			changed(a, "nuc1", func(x *Agent) { x.Overdue = []AgentRefusal{{VIP: "192.168.50.1"}} })
		}, "", false},
		{"a kubelet is not ready", nodes, func(s *Observed, _ map[string]Answer) { s.Nodes[0].Kubelet.Status = "False" }, "nuc1 active NotReady", false},
		{"a Node is no machine", nodes, func(s *Observed, _ map[string]Answer) { s.Nodes = append(s.Nodes, nodeThatIs("x")) }, "x  Ready AsPlanned 0/0", false},
		{"a machine is off", nodes, func(s *Observed, _ map[string]Answer) {
			n := nodeThatIs("nuc4")
			n.Kubelet.Status = "Unknown"
			s.Nodes = slices.Insert(s.Nodes, 2, n)
		}, "nuc4 off Unknown", true},

		{"all is well", routes, nil, "[nuc1 2/2 [] [] nuc2 2/2 [] [] nuc5 2/2 [] []] []", true},
		{"a route is missing", routes, func(_ *Observed, a map[string]Answer) {
			changed(a, "nuc1", func(x *Agent) { x.Routes = AgentRoutes{2, 1, []string{"10.0.0.0/24: file exists"}} })
		}, "nuc1 1/2 [10.0.0.0/24: file exists]", false},
		{"a pod CIDR has no route", routes, func(_ *Observed, a map[string]Answer) {
			changed(a, "nuc1", func(x *Agent) { x.Unrouted = []AgentRefusal{{PodCIDR: "10.0.9.0/24"}} })
		}, "10.0.9.0/24", false},

		{"all is well", pools, nil, "[{default active {IPv4 64 63} 1 false}]", true},
		{"a pool is nearly full", pools, func(s *Observed, _ map[string]Answer) { s.hold(60) }, "[{default active {IPv4 64 4} 60 true}]", false},
		{"a VIP is of no pool", pools, func(s *Observed, _ map[string]Answer) {
			s.Claimed = append(s.Claimed, netip.MustParseAddr("192.0.2.1"))
		}, "{ no pool { 0 0} 1 false}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, answers := well(t), everybody()
			if c.change != nil {
				c.change(&seen, answers)
			}
			if got, well := c.of(seen, answers); !strings.Contains(got, c.want) || well != c.well {
				t.Errorf("it says %s, well %t; want %s, %t", got, well, c.want, c.well)
			}
		})
	}
}

// A kubelet that is not heard of would keep the others waiting, and of what is off nobody asks.
func TestJSONOfANodeHasWhatItsAgentSaysBesideTheRest(t *testing.T) {
	answers := everybody()
	changed(answers, "nuc1", func(a *Agent) { a.Settings, a.WaitingFor = []string{"rp_filter=1"}, "an inventory" })
	delete(answers, "nuc2")
	text, err := json.Marshal(Nodes(well(t), answers).Items[:2])
	if want := `[{"node":"nuc1","machine":"nuc1","rack":"shelf","state":"active","reason":"","kubelet":"Ready","fabric":"AsPlanned","message":"routes 1/1, sessions 1/1","image":"agent:v1","asked":true,"sessionsUp":1,"sessions":1,"routesHeld":2,"routes":2,"waitingFor":"an inventory","fromDisk":false,"proxyHealthy":true,"settings":["rp_filter=1"],"overdue":0},{"node":"nuc2","machine":"nuc2","rack":"shelf","state":"maintenance","reason":"","kubelet":"Ready","fabric":"AsPlanned","message":"routes 1/1, sessions 1/1","image":"agent:v1","asked":false,"sessionsUp":0,"sessions":0,"routesHeld":0,"routes":0,"waitingFor":"","fromDisk":false,"proxyHealthy":false,"settings":[],"overdue":0}]`; err != nil || string(text) != want {
		t.Errorf("%s %v\nwant %s", text, err, want)
	}
}

func TestNodesAreAskedThatCanAnswer(t *testing.T) {
	seen := well(t)
	seen.Nodes[1].Kubelet.Status = "Unknown"
	seen.Nodes = append(seen.Nodes, nodeThatIs("x"))
	if got := NodesToAsk(seen); !slices.Equal(got, []string{"nuc1", "nuc5"}) {
		t.Errorf("%v", got)
	}
}
