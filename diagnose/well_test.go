package diagnose

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
)

const shelf = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks:
    - name: shelf
      machines:
        - {name: nuc1, addresses: [192.168.1.11]}
        - {name: nuc2, addresses: [192.168.1.12], state: maintenance}
        - {name: nuc3, addresses: [192.168.1.13], state: planned}
        - {name: nuc4, addresses: [192.168.1.14], state: "off"}
        - {name: nuc5, addresses: [192.168.1.15]}
  pools: [{name: default, addresses: [192.168.50.0/26]}]
`

var (
	web    = lb.ServiceKey{Namespace: "prod", Name: "web"}
	webVIP = netip.MustParseAddr("192.168.50.1")
	noon   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// well is a cluster in which there is nothing to be seen.
func well(t *testing.T) Observed {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(shelf)})
	if inv == nil {
		t.Fatal(problems)
	}
	seen := Observed{
		Inventory: inv, Edit: Edit{Ready: true, Generation: "7"}, Planned: true,
		Nodes:    []Node{nodeThatIs("nuc1"), nodeThatIs("nuc2"), nodeThatIs("nuc5")},
		Services: []Service{{Key: web, Shown: []netip.Addr{webVIP}, Allocated: Condition{Status: "True", Reason: "Allocated"}}},
		Claimed:  []netip.Addr{webVIP},
		Agents:   []Pod{{Name: "agent-1", Node: "nuc1", Image: "agent:v1"}, {Name: "agent-2", Node: "nuc2", Image: "agent:v1"}, {Name: "agent-5", Node: "nuc5", Image: "agent:v1"}},
	}
	seen.Cluster = preview.Cluster{Nodes: map[string]preview.Node{}, Services: []preview.Service{{
		Key: web, VIPs: []netip.Addr{webVIP}, Endpoints: map[lb.Family]advertise.Spread{lb.IPv4: {Ready: map[string]int{"nuc1": 1}}},
	}}}
	for _, n := range seen.Nodes {
		seen.Cluster.Nodes[n.Name] = preview.Node{Identity: n.NodeIdentity}
	}
	return seen
}

func nodeThatIs(name string) Node {
	return Node{
		NodeState: inventory.NodeState{NodeIdentity: inventory.NodeIdentity{Name: name}, Ready: true},
		Kubelet:   Condition{Status: "True", Message: "kubelet says so"},
		Fabric:    Condition{Status: "True", Reason: "AsPlanned", Message: "routes 1/1, sessions 1/1"},
	}
}

// withholds is what an agent says whose router takes no IPv6.
func (o *Observed) withholds(at int) {
	n := &o.Nodes[at]
	report := lb.ParseReport(n.Fabric.Message)
	report.Withheld = []lb.Withheld{{Router: "gateway", Peer: "192.168.1.1", Reason: "FamilyNotNegotiated", Family: lb.IPv6, All: true}}
	n.Fabric.Message = report.String()
}

// sessionsDown is what an agent says without a session, and what follows from it for the plan.
func (o *Observed) sessionsDown(at int, message string) {
	n := &o.Nodes[at]
	n.Fabric = Condition{Status: "False", Reason: lb.FabricSessionsDown, Message: message}
	o.Cluster.Nodes[n.Name] = preview.Node{Identity: n.NodeIdentity, Silent: true, NoSession: lb.ParseReport(message).NoSessionIsUp()}
}
