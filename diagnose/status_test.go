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

func TestStatusNamesAllThatIsNotWellAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Observed)
		want   []string
	}{
		{"all is well", func(*Observed) {}, nil},

		// The inventory.
		{"an edit has mistakes", func(s *Observed) {
			s.Edit.Ready, s.Edit.Problems = false, []string{"home.yaml:1:1: error[P0001]: one", "home.yaml:2:1: error[P0002]: two"}
		}, []string{"the newest edit of the inventory is not in force", "home.yaml:1:1: error[P0001]: one", "home.yaml:2:1: error[P0002]: two"}},
		{"an edit is refused for its losses", func(s *Observed) {
			s.Edit.Ready, s.Edit.Refused, s.Edit.Problems = false, "3f9a1c0e5b7d2468", []string{"safety: error[P1007]: takes 192.168.50.1 of prod/web"}
		}, []string{"newest edit of the inventory is not in force", "P1007", "if it is meant: plinth allow 3f9a1c0e5b7d2468"}},
		{"an edit is on trial", func(s *Observed) {
			s.Edit.Ready, s.Edit.Trial = false, []string{"nuc1 with gateway"}
			s.Nodes[0].Fabric.Message += "; on trial 3f2a9c01: gateway up"
		},
			[]string{"the newest edit of the inventory is on trial, before its terms of sessions count for all: nuc1 with gateway"}},
		{"what is stored cannot be read, and the edit at hand has a mistake", func(s *Observed) {
			s.Unreadable = "the accepted inventory cannot be read; kubectl helps"
			s.Edit.Ready, s.Edit.Store, s.Edit.Problems = false, "the accepted inventory cannot be read", []string{"home.yaml:1:1: error[P0001]: one"}
		}, []string{"the accepted inventory cannot be read; kubectl helps", "the newest edit of the inventory is not in force", "home.yaml:1:1: error[P0001]: one"}},
		{"nothing of what is stored can be read", func(s *Observed) {
			*s = Observed{Unreadable: "the accepted inventory cannot be read; kubectl helps", Edit: Edit{Store: "the accepted inventory cannot be read", Problems: []string{"the accepted inventory cannot be read"}}}
		}, []string{"the accepted inventory cannot be read; kubectl helps", "no inventory is in force"}},
		{"a newer version has stored it", func(s *Observed) {
			*s = Observed{Unreadable: "configmap plinth-accepted is of format 99: upgrade", NewerFormat: true, Edit: Edit{Problems: []string{"the same"}}}
		}, []string{"configmap plinth-accepted is of format 99: upgrade"}},
		{"what is in force cannot be stored", func(s *Observed) {
			s.Edit.Ready, s.Edit.Store, s.Edit.Problems = false, "a policy says no", []string{"a policy says no"}
		}, []string{"cannot be stored, and is tried again: a policy says no", "the newest edit of the inventory is not in force"}},
		{"nobody has looked at the newest edit", func(s *Observed) { s.Edit.Unread = true }, []string{"nobody has looked at the newest edit of the inventory yet"}},
		{"nobody took anything up yet", func(s *Observed) { s.Edit = Edit{} }, []string{"newest edit"}},
		{"nothing is in force, for the controller never ran", func(s *Observed) {
			*s = Observed{Controllers: []Pod{{Name: "p", Pending: "it cannot be scheduled: no node"}}}
		}, []string{"controller: pod p does not run: it cannot be scheduled: no node", "no inventory is in force"}},

		// VIPs.
		{"the pool of a VIP is disabled", func(s *Observed) { s.Inventory.Pools[0].State = inventory.PoolDisabled },
			[]string{"vip 192.168.50.1 (prod/web): nobody announces it: its pool is disabled"}},
		{"no pool has a VIP", func(s *Observed) { s.Inventory.Pools = nil }, []string{"vip 192.168.50.1 (prod/web): nobody announces it: no pool has it"}},
		{"a pool is announced from a rack without machines", func(s *Observed) {
			s.Inventory.Racks[0].Machines[1].State, s.Inventory.Pools[0].Advertise[0].Racks = inventory.StateActive, []string{"r9"}
		},
			[]string{"nobody announces it: its pool is announced from racks that have no machine for it"}},
		{"a Service has no endpoint", func(s *Observed) { s.Cluster.Services[0].Endpoints = nil }, []string{"nobody announces it: its Service has no endpoint"}},
		{"no machine with an endpoint is active", func(s *Observed) {
			s.Cluster.Services[0].LocalTraffic = true
			s.Cluster.Services[0].Endpoints = map[lb.Family]advertise.Spread{lb.IPv4: {Ready: map[string]int{"nuc2": 1}}}
		}, []string{"no machine that could announce it has an endpoint"}},
		{"all machines are in maintenance", func(s *Observed) {
			for _, i := range []int{0, 1, 4} {
				s.Inventory.Racks[0].Machines[i].State = inventory.StateMaintenance
			}
		}, []string{"vip 192.168.50.1 (prod/web): nobody announces it: no machine for it is active"}},
		{"all machines are off, and so are their Nodes", func(s *Observed) {
			for i := range s.Inventory.Racks[0].Machines {
				s.Inventory.Racks[0].Machines[i].State = inventory.StateOff
			}
			s.Nodes, s.Cluster.Nodes, s.Agents = nil, map[string]preview.Node{}, nil
		}, []string{"vip 192.168.50.1 (prod/web): nobody announces it: no Node is a machine of the inventory"}},
		{"no machine has a session", func(s *Observed) {
			s.sessionsDown(0, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
			s.sessionsDown(2, "routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch")
		}, []string{"vip 192.168.50.1 (prod/web): nobody announces it: no machine that is to announce it has a session up that carries its family", "machine nuc1 (shelf): its fabric is not ready: routes 1/1, sessions 0/1: gateway/192.168.1.1 ASNMismatch", "machine nuc5"}},
		{"the controller alone says that a VIP is not announced", func(s *Observed) {
			s.Services[0].Announced = Condition{Status: "False", Reason: "PoolIsDisabled", Message: "192.168.50.1: nobody announces it"}
		}, []string{"service prod/web: PoolIsDisabled: 192.168.50.1: nobody announces it"}},
		{"the controller says it too", func(s *Observed) {
			s.Inventory.Pools[0].State = inventory.PoolDisabled
			s.Services[0].Announced = Condition{Status: "False", Reason: "PoolIsDisabled", Message: "192.168.50.1: nobody announces it"}
		}, []string{"vip 192.168.50.1"}},

		{"the rules of all machines are gone", func(s *Observed) {
			for name, n := range s.Cluster.Nodes {
				n.NoRules = true
				s.Cluster.Nodes[name] = n
			}
		}, []string{"vip 192.168.50.1 (prod/web): nobody announces it: kube-proxy's rules are gone on the machines that are to announce it"}},

		{"no kube-proxy serves", func(s *Observed) {
			for name, n := range s.Cluster.Nodes {
				n.ProxyRefuses = true
				s.Cluster.Nodes[name] = n
			}
		}, []string{"vip 192.168.50.1 (prod/web): nobody announces it: kube-proxy says that it does not serve on the machines that are to announce it"}},

		// Services.
		{"a label keeps kube-proxy from a Service", func(s *Observed) { s.Services[0].Proxy = "other" }, []string{"service prod/web: ServedByOtherProxy: its label service.kubernetes.io/service-proxy-name says that other serves it"}},
		{"a label keeps an older kube-proxy from a Service", func(s *Observed) { s.Services[0].Proxy = lb.NoProxy }, []string{"service prod/web: LabelledHeadless: its label service.kubernetes.io/headless keeps kube-proxy up to 1.35 from it"}},
		{"a Service waits", func(s *Observed) {
			s.Services[0].Allocated = Condition{Status: "False", Reason: "PoolExhausted", Message: "default: all 64 addresses are in use"}
		}, []string{"service prod/web: PoolExhausted: default: all 64"}},
		{"nobody has looked at a Service", func(s *Observed) { s.Services[0] = Service{Key: web} }, []string{"service prod/web: ServiceUnanswered: nobody has answered it"}},
		{"another balancer's Service", func(s *Observed) { s.Services[0] = Service{Key: web, Class: "example.com/other"} }, nil},
		{"another balancer has answered a Service without a class", func(s *Observed) { s.Services[0].Allocated = Condition{} }, nil},

		// Machines and Nodes.
		{"a Node is not there", func(s *Observed) { s.Nodes = s.Nodes[1:] }, []string{"machine nuc1 (shelf) has no Node"}},
		{"a Node is not ready", func(s *Observed) { s.Nodes[0].Kubelet.Status = "False" }, []string{"machine nuc1 (shelf): Node nuc1 is not ready: kubelet says so"}},
		{"an agent says that a session is down", func(s *Observed) { s.sessionsDown(1, "routes 8/8, sessions 0/1") }, []string{"machine nuc2 (shelf): its fabric is not ready: routes 8/8, sessions 0/1"}},
		{"an agent fell silent", func(s *Observed) {
			s.Nodes[0].Kubelet.Heard, s.Nodes[0].Fabric.Heard = noon, noon.Add(-15*time.Minute)
		}, []string{"machine nuc1 (shelf): its agent has said nothing for 15m0s longer than its kubelet"}},
		{"an agent was heard five minutes before its kubelet", func(s *Observed) {
			s.Nodes[0].Kubelet.Heard, s.Nodes[0].Fabric.Heard = noon, noon.Add(-5*time.Minute)
		}, nil},
		{"an agent whose kubelet fell silent with it", func(s *Observed) {
			s.Nodes[0].Kubelet, s.Nodes[0].Fabric.Heard = Condition{Status: "Unknown", Message: "kubelet is silent", Heard: noon}, noon.Add(-15*time.Minute)
		}, []string{"machine nuc1 (shelf): Node nuc1 is not ready: kubelet is silent"}},
		{"kube-proxy's rules are gone on a machine", func(s *Observed) { s.Nodes[0].Fabric.Message += "; " + lb.RulesLost{Gone: 1, Of: 3}.String() },
			[]string{"machine nuc1 (shelf): its agent says: ProxyRulesLost: kube-proxy's rules are gone for 1 of 3 VIPs"}},
		{"a kube-proxy does not serve", func(s *Observed) { s.Nodes[0].Fabric.Message += "; " + lb.Report{ProxyRefuses: true}.Besides() },
			[]string{"machine nuc1 (shelf): its agent says: ProxyUnhealthy: kube-proxy says that it does not serve"}},
		{"a router takes no IPv6", func(s *Observed) { s.withholds(0) },
			[]string{"machine nuc1 (shelf): its agent says: withheld from gateway/192.168.1.1 FamilyNotNegotiated IPv6"}},
		{"no agent has ever said anything", func(s *Observed) { s.Nodes[0].Fabric = Condition{} }, []string{"no agent has said so"}},
		{"an agent that a newer version has left behind", func(s *Observed) {
			s.Nodes[0].Fabric.Reason, s.Nodes[0].Fabric.Message = lb.FabricOutdated, "routes 1/1; configmap plinth-accepted is of format 2"
		}, []string{"nuc1 (shelf): its agent is of an older version than what is stored: routes 1/1; configmap plinth-accepted is of format 2"}},
		{"settings of a kernel keep packets from pods", func(s *Observed) {
			s.Nodes[0].Fabric.Message += "; kernel settings: net.ipv4.ip_forward is 0 and should be 1"
		},
			[]string{"machine nuc1 (shelf): its agent says: kernel settings: net.ipv4.ip_forward is 0 and should be 1"}},
		{"a router does not take a new password", func(s *Observed) {
			s.Nodes[0].Fabric.Message += "; the new password did not bring up the session with gateway"
		},
			[]string{"machine nuc1 (shelf): its agent says: the new password did not bring up the session with gateway"}},
		{"a stranger", func(s *Observed) { s.Nodes = append(s.Nodes, nodeThatIs("nuc9")) }, []string{"node nuc9"}},
		{"a Node of a machine that is gone", func(s *Observed) {
			s.Nodes = append(s.Nodes, nodeThatIs("nuc9"))
			s.Nodes[3].ProviderID = "plinth://nuc9"
		}, []string{"node nuc9: its provider ID plinth://nuc9 is of no machine of the inventory; if that machine is gone, run: kubectl delete node nuc9"}},
		{"two Nodes of one machine", func(s *Observed) {
			s.Nodes[1], s.Agents[1].Node = nodeThatIs("other"), "other"
			s.Nodes[1].ProviderID = "plinth://nuc1"
		}, []string{"nuc2 (shelf) has no Node", "node other: machine nuc1 is node nuc1 already"}},
		{"a machine that another is in the place of", func(s *Observed) {
			s.Nodes[0].ProviderID, s.Inventory.Racks[0].Machines[0].ID = "plinth://nuc1", "NEWSERIAL"
		}, []string{"node nuc1: it has the provider ID plinth://nuc1, and machine nuc1 is plinth://NEWSERIAL now; a provider ID never changes: if another machine is in its place, drain the Node if pods run there, run: kubectl delete node nuc1"}},
		{"the controller says so, too", func(s *Observed) {
			s.Nodes[0].ProviderID, s.Inventory.Racks[0].Machines[0].ID = "plinth://nuc1", "NEWSERIAL"
			s.Edit.NodesWithoutMachine, s.Edit.MachinesWithoutNode = []string{"nuc1"}, []string{"nuc1"}
		}, []string{"node nuc1: it has the provider ID"}},
		{"a board that the inventory does not know", func(s *Observed) {
			s.Nodes[0].SystemUUID, s.Nodes[0].ProviderID = inventory.ReportedUUID("4C4C4544-0032-3010-8053-B7C04F585932"), "plinth://nuc1"
			s.Inventory.Racks[0].Machines[0].SystemUUID = inventory.ReportedUUID("4c4c4544-0032-3010-8053-b7c04f585931")
		}, []string{"node nuc1: it reports systemUUID 4c4c4544-0032-3010-8053-b7c04f585932, and the inventory has 4c4c4544-0032-3010-8053-b7c04f585931 for machine nuc1"}},
		{"a machine that is off with a volume", func(s *Observed) {
			n := nodeThatIs("nuc4")
			n.Ready, n.Kubelet.Status, n.Volumes = false, "Unknown", 1
			s.Nodes = append(s.Nodes, n)
		}, []string{"node nuc4: machine nuc4 is off, and what is attached to it can be used nowhere else (volumes: 1)"}},
		{"the controller has not seen a Node", func(s *Observed) { s.Edit.MachinesWithoutNode = []string{"nuc1"} }, []string{"machine nuc1 (shelf): the controller knows no Node of it"}},
		{"the controller knows no machine that a Node is", func(s *Observed) { s.Edit.NodesWithoutMachine = []string{"nuc1"} }, []string{"node nuc1: the controller knows no machine that it is"}},
		{"the controller has initialised a Node, and has not said so yet", func(s *Observed) {
			s.Nodes[0].ProviderID = "plinth://nuc1"
			s.Edit.MachinesWithoutNode, s.Edit.NodesWithoutMachine = []string{"nuc1"}, []string{"nuc1"}
		}, nil},
		{"a stranger that the controller tells of, too", func(s *Observed) {
			s.Nodes = append(s.Nodes, nodeThatIs("nuc9"))
			s.Edit.NodesWithoutMachine = []string{"nuc9"}
		}, []string{"node nuc9"}},
		{"a machine without a Node that the controller tells of, too", func(s *Observed) {
			s.Nodes, s.Edit.MachinesWithoutNode = s.Nodes[1:], []string{"nuc1"}
		}, []string{"nuc1 (shelf) has no Node"}},
		{"the controller tells of a Node that is gone by now", func(s *Observed) { s.Edit.NodesWithoutMachine = []string{"nuc9"} }, nil},
		{"a Node of a planned machine", func(s *Observed) { s.Nodes = append(s.Nodes, nodeThatIs("nuc3")) }, []string{"node nuc3: machine nuc3 is planned"}},
		{"a kubelet with an address of nobody", func(s *Observed) { s.Nodes[0].NodeIPs = "192.168.1.99" }, []string{"node nuc1: the kubelet runs with --node-ip=192.168.1.99"}},
		{"other pod CIDRs than the inventory's", func(s *Observed) {
			s.Nodes[0].PodCIDRs, s.Inventory.Racks[0].Machines[0].PodCIDRs = blocks("10.244.9.0/24"), blocks("10.244.1.0/24")
		}, []string{"node nuc1: it has the pod CIDRs [10.244.9.0/24], the inventory gives machine nuc1 [10.244.1.0/24]"}},
		{"two Nodes of one pod CIDR", func(s *Observed) {
			s.Inventory.PodNetwork.Mode = inventory.ModeDirect
			s.Nodes[0].PodCIDRs, s.Nodes[1].PodCIDRs, s.Nodes[2].PodCIDRs = blocks("10.244.0.0/20"), blocks("10.244.16.0/24"), blocks("10.244.3.0/24")
		}, []string{"node nuc1 has pod CIDRs [10.244.0.0/20], and one of Node nuc5 overlaps", "node nuc5 has pod CIDRs [10.244.3.0/24], and one of Node nuc1 overlaps"}},
		{"a Node that gets no pod CIDR, for another has it", func(s *Observed) {
			s.Inventory.PodNetwork.Mode = inventory.ModeDirect
			s.Nodes[0].PodCIDRs, s.Inventory.Racks[0].Machines[4].PodCIDRs = blocks("10.244.3.0/24"), blocks("10.244.3.0/24")
		}, []string{"node nuc1 has pod CIDRs [10.244.3.0/24], and one of Node nuc5", "node nuc5 gets none of its pod CIDRs [10.244.3.0/24], and one of Node nuc1 overlaps"}},
		{"a machine that is held without addresses", func(s *Observed) {
			m := &s.Inventory.Racks[0].Machines[2]
			m.Held, m.Addresses = true, nil
			s.Nodes = slices.Insert(s.Nodes, 2, nodeThatIs("nuc3"))
		}, []string{"machine nuc3 (shelf) is not in the inventory any more"}},
		{"a rack in maintenance", func(s *Observed) { s.Inventory.Racks[0].State = inventory.StateMaintenance }, nil},
		{"a machine is held", func(s *Observed) { s.Inventory.Racks[0].Machines[0].Held = true }, []string{"nuc1 (shelf) is not in the inventory any more"}},

		// Pods of Plinth.
		{"the controller cannot be scheduled", func(s *Observed) {
			s.Controllers = []Pod{{Name: "ccm-x", Pending: "it cannot be scheduled: 0/4 nodes are available"}}
		}, []string{"controller: pod ccm-x does not run: it cannot be scheduled: 0/4 nodes are available"}},
		{"no controller ever led", func(s *Observed) { s.Leader = &Leader{Lease: "a/b"} }, []string{"controller: none leads: there is no lease a/b, as of one"}},
		{"none has led, and one runs", func(s *Observed) {
			s.Leader, s.Controllers = &Leader{Lease: "a/b"}, []Pod{{Name: "p", Node: "nuc1", Image: "ccm:v1"}}
		}, nil},
		{"the controller that led has ended", func(s *Observed) { s.Leader = &Leader{Lease: "a/b", Exists: true} }, []string{"controller: none leads: nobody has the lease a/b. Until one does, no edit"}},
		{"the controller that led is dead", func(s *Observed) {
			s.Leader = &Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Silent: 90 * time.Second}
		},
			[]string{"controller: none leads: w1_x had the lease a/b, and renewed it 1m30s ago the last time"}},
		{"another program's controller has the lease", func(s *Observed) {
			s.Leader = &Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Program: "k3s"}
		}, []string{"controller: none of Plinth's leads: w1_x has the lease a/b, by program k3s, and Plinth's controller waits for it. Until"}},
		{"another program's controller had the lease", func(s *Observed) {
			s.Leader = &Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Program: "k3s", Silent: 90 * time.Second}
		}, []string{"controller: none leads: w1_x had the lease a/b, and renewed it 1m30s ago the last time"}},
		{"a controller leads, and another one may act", func(s *Observed) {
			s.Inventory, s.Leader = nil, &Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Idle: "k3s holds the lease of namespace kube-system"}
		}, []string{"controller: w1_x leads, and does nothing: k3s holds the lease of namespace kube-system", "no inventory is in force"}},
		{"a controller leads", func(s *Observed) { s.Leader = &Leader{Lease: "a/b", Exists: true, Holder: "w1_x"} }, nil},
		{"the controller runs", func(s *Observed) { s.Controllers = []Pod{{Name: "p", Node: "nuc1", Image: "ccm:v1"}} }, nil},
		{"an agent does not run", func(s *Observed) { s.Agents[1].Pending = "CrashLoopBackOff: back-off 5m0s" }, []string{"agent (nuc2): pod agent-2 does not run: CrashLoopBackOff: back-off 5m0s"}},
		{"an agent is missing, and its last word stands", func(s *Observed) { s.Agents = s.Agents[1:] }, []string{"agent (nuc1): no pod of the agent is on this Node"}},
		{"agents run outside of the cluster", func(s *Observed) { s.Agents = nil }, nil},
		{"an agent is of another version", func(s *Observed) { s.Agents[2].Image = "agent:v0" }, []string{"agent (nuc5) is of another version: its image is agent:v0, and that of most is agent:v1"}},
		{"of agents no image is that of most", func(s *Observed) {
			for i := range s.Agents {
				s.Agents[i].Image = fmt.Sprintf("agent:v%d", i)
			}
			s.Controllers = []Pod{{Name: "p", Node: "nuc1", Image: "ccm:v1"}}
		}, []string{"agent (nuc2) is of another version: its image is agent:v1, and that of nuc1 is agent:v0", "agent (nuc5) is of another version: its image is agent:v2, and that of nuc1 is agent:v0"}},
		{"the controller is of another version", func(s *Observed) {
			s.Controllers = []Pod{{Name: "p", Node: "nuc1", Image: "registry:5000/ccm:v2"}}
		}, []string{"controller: it is of version v2, and most agents are of v1"}},
		{"images are named by digest", func(s *Observed) { s.Controllers = []Pod{{Name: "p", Node: "nuc1", Image: "ccm@sha256:00"}} }, nil},

		// Pools.
		{"a pool has pods of a Node that joined later", func(s *Observed) {
			s.Cluster.Taken = []lb.Taken{{Prefix: netip.MustParsePrefix("192.168.50.32/28"), Who: "the pods of node nuc9"}, {Prefix: netip.MustParsePrefix("192.168.51.1/32"), Who: "node nuc9"}}
		}, []string{"pool default has 192.168.50.32/28 of the pods of node nuc9, so that no VIP is given from there"}},
		{"a pool is nearly full", func(s *Observed) { s.hold(58) }, []string{"pool default is nearly full: 6 of 64 IPv4 addresses are free"}},
		{"a pool has room", func(s *Observed) { s.hold(57) }, nil},
		{"a pool is full", func(s *Observed) { s.hold(64) }, []string{"pool default is full: none of its 64 IPv4 addresses is free"}},
		{"a pool that drains is full", func(s *Observed) { s.hold(64); s.Inventory.Pools[0].State = inventory.PoolDraining }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := well(t)
			c.change(&seen)
			got := Of(seen).NotWell
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %d", got, len(c.want))
			}
			for _, f := range Of(seen).Findings {
				if f.Reason == "" {
					t.Errorf("%q has no reason", f)
				}
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q does not say %q", got[i], want)
				}
			}
		})
	}
}

func blocks(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// Pods that do not reach each other are a finding, once for each family and reason; those of machines that somebody took
// out of service are not.
func TestStatusTellsOfPodsThatDoNotReachEachOther(t *testing.T) {
	const tor = "{name: tor, address: 10.1.0.1, asn: 65101}"
	const two = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: two}\nspec:\n" +
		"  bgp: {asn: 65000}\n  podNetwork: {mode: MODE, cidrs: [10.244.0.0/16]}\n" +
		"  racks:\n" +
		"    - {name: r1, routers: [ROUTERS], subnets: [10.1.0.0/24], machines: [{name: a, addresses: [10.1.0.11]}, {name: b, addresses: [10.1.0.12]}]}\n" +
		"    - {name: r2, subnets: [10.2.0.0/24], machines: [{name: c, addresses: [10.2.0.11]}]}\n"
	for _, c := range []struct {
		what, mode string
		routers    string          // of the first rack
		state      inventory.State // of the machine of the other rack
		want       []string
	}{
		{"a tunnel", "overlay", tor, inventory.StateActive, nil},
		{"two subnets", "direct", tor, inventory.StateActive, []string{"pods (r1 to r2, r2 to r1): Plinth plans no way over IPv4 between 4 pairs of machines: NodeOfOtherSubnet"}},
		{"a rack without a router, whose default route may lead to that of the other", "fabric", tor, inventory.StateActive, []string{
			"pods (r1 to r2): Plinth plans no way over IPv4 between 2 pairs of machines: NoSession",
		}},
		{"no router", "fabric", "", inventory.StateActive, []string{"pods (r1 to r2, r2 to r1): Plinth plans no way over IPv4 between 4 pairs of machines: NoGateway"}},
		{"on purpose", "fabric", tor, inventory.StateMaintenance, nil},
	} {
		text := strings.NewReplacer("MODE", c.mode, "ROUTERS", c.routers).Replace(two)
		inv, problems := document.Load(document.Document{Source: "two.yaml", Data: []byte(text)})
		if inv == nil {
			t.Fatal(problems)
		}
		inv.Racks[1].Machines[0].State = c.state
		seen := Observed{Inventory: inv, Edit: Edit{Ready: true}}
		for m := range inv.Machines() {
			n := nodeThatIs(m.Name)
			n.PodCIDRs = m.PodCIDRs
			seen.Nodes = append(seen.Nodes, n)
		}
		if got := Of(seen).NotWell; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestAHealthyClusterHasNoProblems has layouts that work, and look odd.
func TestAHealthyClusterHasNoProblems(t *testing.T) {
	const one = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: one}\nspec:\n  bgp: {asn: 65000}\n"
	for _, c := range []struct {
		what, spec string
		pods       map[string][]string // by Node; none: those of the inventory
		nodeIPs    map[string]string
		but        string // the only finding
	}{
		{what: "both families, as kubelets tell their addresses", spec: `
  podNetwork: {mode: overlay, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks: [{name: r1, routers: [{name: tor, address: 10.1.0.1, asn: 65101}], machines: [{name: a, addresses: [10.1.0.11, "fd00:1::11"]}, {name: b, addresses: [10.1.0.12, "fd00:1::12"]}]}]
`, nodeIPs: map[string]string{"a": "10.1.0.11,fd00:1::11", "b": "fd00:1::12"}},
		{what: "pod CIDRs in the other order", spec: `
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks: [{name: r1, machines: [{name: a, addresses: [10.1.0.11, "fd00:1::11"], podCIDRs: [10.244.1.0/24, "fd00:244:0:1::/64"]}]}]
`, pods: map[string][]string{"a": {"fd00:244:0:1::/64", "10.244.1.0/24"}}},
		{what: "a router with an IPv4 address alone, which is told of IPv6 pods", spec: `
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks:
    - {name: r1, subnets: [10.1.0.0/24, "fd00:1::/64"], routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}], machines: [{name: a, addresses: [10.1.0.11, "fd00:1::11"]}]}
    - {name: r2, subnets: [10.2.0.0/24, "fd00:2::/64"], routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}], machines: [{name: b, addresses: [10.2.0.11, "fd00:2::11"]}]}
`},
		{what: "routers that are some hops away", spec: `
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
  routers: [{name: core, address: 10.9.0.1, asn: 65109, multihop: 3}]
  racks:
    - {name: r1, subnets: [10.1.0.0/24], machines: [{name: a, addresses: [10.1.0.11]}]}
    - {name: r2, subnets: [10.2.0.0/24], machines: [{name: b, addresses: [10.2.0.11]}]}
`},
		{what: "a Node without IPv6 among others that have it", spec: `
  podNetwork: {mode: overlay, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks: [{name: r1, subnets: [10.1.0.0/24], machines: [{name: a, addresses: [10.1.0.11, "fd00:1::11"]}, {name: b, addresses: [10.1.0.12, "fd00:1::12"]}, {name: old, addresses: [10.1.0.13]}]}]
`, pods: map[string][]string{"old": {"10.244.2.0/24"}}, but: "node old: it has the pod CIDRs [10.244.2.0/24]"},
		{what: "another program routes pods, and gives all Nodes one block", spec: `
  racks: [{name: r1, machines: [{name: a, addresses: [10.1.0.11]}, {name: b, addresses: [10.2.0.12]}]}]
`, pods: map[string][]string{"a": {"10.244.0.0/16"}, "b": {"10.244.0.0/16"}}},
	} {
		inv, problems := document.Load(document.Document{Source: "one.yaml", Data: []byte(one + c.spec[1:])})
		if inv == nil {
			t.Fatalf("%s: %v", c.what, problems)
		}
		seen := Observed{Inventory: inv, Edit: Edit{Ready: true}}
		for m := range inv.Machines() {
			n := nodeThatIs(m.Name)
			n.PodCIDRs, n.NodeIPs = m.PodCIDRs, c.nodeIPs[m.Name]
			if has := c.pods[m.Name]; has != nil {
				n.PodCIDRs = blocks(has...)
			}
			seen.Nodes = append(seen.Nodes, n)
		}
		slices.SortFunc(seen.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
		got := Of(seen).NotWell
		if c.but != "" && len(got) == 1 && strings.HasPrefix(got[0], c.but) {
			continue
		}
		if len(got) > 0 || c.but != "" {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}

// hold has so many addresses of the pool be in use.
func (o *Observed) hold(n int) {
	o.Claimed = nil
	for a := netip.MustParseAddr("192.168.50.0"); n > 0; a, n = a.Next(), n-1 {
		o.Claimed = append(o.Claimed, a)
	}
}

// Of two controllers on one control-plane node one waits for ever.
func TestStatusSaysThatOneControlPlaneNodeHasRoomForOneController(t *testing.T) {
	for places, hint := range map[int]bool{0: false, 1: true, 2: false} {
		seen := well(t)
		for i := range places {
			seen.Nodes[i].ControlPlane = true
		}
		seen.Controllers = []Pod{{Name: "ccm-1", Node: "nuc1", Image: "ccm:v1"}, {Name: "ccm-2", Image: "ccm:v1", Pending: "0/2 nodes are available"}}
		got := Of(seen)
		if len(got.NotWell) != 1 || strings.Contains(got.NotWell[0], "set the replicas of the controller to 1") != hint {
			t.Errorf("%d control-plane nodes: it says %q", places, got.NotWell)
		}
	}
}

// What is out of service on purpose is told, with the reason and since when, and is no problem.
func TestStatusTellsWhatIsOutOfServiceWhyAndSinceWhen(t *testing.T) {
	seen := well(t)
	rack := &seen.Inventory.Racks[0]
	rack.Machines[1].Reason = "PSU swap"
	seen.Nodes[1].Tainted = noon
	seen.Inventory.Racks = append(seen.Inventory.Racks, inventory.Rack{Name: "top", State: inventory.StateMaintenance, Machines: []inventory.Machine{
		{Name: "w1", Rack: "top", State: inventory.StateMaintenance},
		{Name: "w2", Rack: "top", State: inventory.StateOff, Reason: "no fans"},
		{Name: "w3", Rack: "top", State: inventory.StateRetired},
	}})
	off := nodeThatIs("w2")
	off.Ready, off.Kubelet = false, Condition{Status: "Unknown", Since: noon.Add(time.Hour)}
	seen.Nodes = append(seen.Nodes, nodeThatIs("w1"), off)
	seen.Agents = nil
	seen.Nodes[0].Excluded = true
	seen.Inventory.Pools[0].State = inventory.PoolDraining
	seen.Inventory.Safety.Paused = true
	got := Of(seen)
	if len(got.NotWell) > 0 {
		t.Errorf("these are no problems: %q", got.NotWell)
	}
	want := []string{
		"inventory home: paused: safety.paused keeps what is in force, whatever is edited",
		"machine nuc2 (shelf): maintenance since 2026-11-20T12:00:00Z: PSU swap",
		"machine nuc4 (shelf): off",
		"rack top: maintenance: with 3 machines",
		"machine w2 (top): off since 2026-11-20T13:00:00Z: no fans",
		"node nuc1: announces no VIP: it bears the label node.kubernetes.io/exclude-from-external-load-balancers",
		"pool default: draining",
	}
	var lines []string
	for _, o := range got.OutOfService {
		lines = append(lines, o.String())
	}
	if !slices.Equal(lines, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestStatusSaysWhoLeads(t *testing.T) {
	for _, c := range []struct {
		leader *Leader
		want   string
	}{
		{nil, ""},
		{&Leader{Lease: "a/b"}, ""},
		{&Leader{Lease: "a/b", Exists: true, Holder: "w1_x"}, "w1_x"},
		{&Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Silent: time.Minute}, ""},
		{&Leader{Lease: "a/b", Exists: true, Holder: "w1_x", Program: "k3s"}, ""},
	} {
		seen := well(t)
		seen.Leader = c.leader
		if got := Of(seen).Leads; got != c.want {
			t.Errorf("%+v: it says %q, want %q", c.leader, got, c.want)
		}
	}
}

func TestStatusCountsWhatIsToBeThere(t *testing.T) {
	seen := well(t)
	seen.Claimed = append(seen.Claimed, netip.MustParseAddr("192.0.2.1"))
	seen.Nodes[2].Fabric.Reason = lb.FabricOutdated // it announces and routes as before
	got := Of(seen)
	if want := []Rack{{"shelf", 3, 3, 3, 2}}; !slices.Equal(got.Racks, want) {
		t.Errorf("racks %v, want %v: machines that are planned or off need no Node", got.Racks, want)
	}
	want := []Pool{{"default", "active", 1, []Stock{{"IPv4", 64, 63}}}, {"", "no pool", 1, nil}}
	if fmt.Sprint(got.Pools) != fmt.Sprint(want) {
		t.Errorf("pools %v, want %v", got.Pools, want)
	}
}

func TestWithoutAPlanStatusIsSilentAboutVIPs(t *testing.T) {
	seen := well(t)
	seen.Planned, seen.NotKnown = false, []string{"which VIPs nobody announces: forbidden"}
	seen.Inventory.Pools[0].State = inventory.PoolDisabled
	if got := Of(seen); len(got.NotWell) > 0 || got.NotKnown != "which VIPs nobody announces: forbidden" {
		t.Errorf("%q, %q", got.NotWell, got.NotKnown)
	}
}
