package preview

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

func TestWhyAVIPIsAnnouncedByNobody(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{
		service("a", "203.0.113.77", false, "w1"),
		service("b", "203.0.113.77", false), // they share it
		service("inner", "198.51.100.1", false, "w1"),
		service("local", "203.0.113.5", true, "w1"),
	}}
	with := func(name string, n Node) Cluster {
		all := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: c.Services}
		all.Nodes[name] = n
		return all
	}
	// sixth gives a rack sessions of both families, and a VIP of IPv6; sixthOf has a session of a machine of it be down.
	sixth := []string{"address: 10.2.0.1,", "addresses: [10.2.0.1, 2001:db8:1::1],", "[10.2.0.13]", "[10.2.0.13, 2001:db8:1::13]", "[198.51.100.0/28],", "[198.51.100.0/28, 2001:db8::/120],"}
	sixthOf := func(name, peer string) Cluster {
		all := with(name, Node{Down: []SessionEnd{{"tor-r2", netip.MustParseAddr(peer)}}})
		all.Services = append(slices.Clone(all.Services), service("six", "2001:db8::5", false, "w1"))
		return all
	}
	off, inner := "10.2.0.13], state: off", "[198.51.100.0/28],"
	const racks, active = "its pool is announced from racks that have no machine for it", "no machine for it is active"
	for _, tt := range []struct {
		what    string
		cluster Cluster
		edit    []string
		want    []string
	}{
		{"all is well", c, nil, nil},
		{"no pool has it", c, []string{"203.0.113.0/25", "203.0.113.0/26"}, []string{"VIPOutsidePools 203.0.113.77: no pool has it"}},
		{"its pool is disabled", c, []string{inner, inner + " state: disabled,"}, []string{"PoolIsDisabled 198.51.100.1: its pool is disabled"}},
		{"the machines of its racks are off", c, []string{"10.2.0.13]", off}, []string{"MachineNotActive 198.51.100.1: " + active + "; other machines say PoolLimitedToRacks"}},
		{"one of two machines is off, and it is for other racks", c, []string{"racks: [r2]", "racks: [r2], routers: [tor-r1]", "10.1.0.12]", "10.1.0.12], state: off"},
			[]string{"MachineNotActive 198.51.100.1: " + active + "; other machines say PoolLimitedToRacks, PoolLimitedToRouters"}},
		{"its racks have no machine", Cluster{Nodes: nodes("w1", "w2"), Services: c.Services}, nil, []string{"PoolLimitedToRacks 198.51.100.1: " + racks}},
		{"the machine with its endpoints is excluded", with("w1", Node{Excluded: true}), nil, []string{"NoLocalEndpoint 203.0.113.5: no machine that could announce it has an endpoint; other machines say NodeExcluded"}},
		{"it has no endpoint", Cluster{Nodes: c.Nodes, Services: []Service{service("none", "203.0.113.9", false)}}, nil, []string{"NoEndpoint 203.0.113.9: its Service has no endpoint"}},
		{"its endpoints are in slices that its proxy does not follow", Cluster{Nodes: c.Nodes, Services: []Service{unfollowed(service("none", "203.0.113.9", false))}}, nil,
			[]string{"EndpointsNotFollowed 203.0.113.9: its Service's proxy does not follow the EndpointSlices that have its endpoints"}},
		{"beside one without endpoints", Cluster{Nodes: c.Nodes, Services: []Service{service("idle", "203.0.113.8", false), unfollowed(service("none", "203.0.113.9", false))}}, nil,
			[]string{"NoEndpoint 203.0.113.8: its Service has no endpoint", "EndpointsNotFollowed 203.0.113.9: its Service's proxy does not follow the EndpointSlices that have its endpoints"}},
		{"no Node is a machine", Cluster{Nodes: nodes("x"), Services: c.Services[:1]}, nil, []string{"NoMachineKnown 203.0.113.77: no Node is a machine of the inventory"}},
		{"all machines for it have lost their routers", with("w3", Node{NoSession: true}), nil, []string{"NoSessionUp 198.51.100.1: no machine that is to announce it has a session up that carries its family"}},
		{"the session of its family is down", sixthOf("w3", "2001:db8:1::1"), sixth, []string{"NoSessionUp 2001:db8::5: no machine that is to announce it has a session up that carries its family"}},
		{"the session of the other family is down", sixthOf("w3", "10.2.0.1"), sixth, []string{"NoSessionUp 198.51.100.1: no machine that is to announce it has a session up that carries its family"}},
		{"a session with an older address of the router is down", sixthOf("w3", "10.2.0.9"), sixth, nil},
		{"no agent has run on the machines for it", with("w3", Node{NoAgent: true}), nil, []string{"NoAgent 198.51.100.1: no agent has run on a machine that is to announce it"}},
		{"one of two machines has lost its routers", with("w1", Node{NoSession: true}), nil, []string{"NoSessionUp 203.0.113.5: no machine that is to announce it has a session up that carries its family"}},
	} {
		var got []string
		for _, u := range UnannouncedOf(edited(t, tt.edit...), tt.cluster) {
			got = append(got, string(u.Reason)+" "+u.String())
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.what, d)
		}
	}
	if got := UnannouncedOf(edited(t, "203.0.113.0/25", "203.0.113.0/26"), c)[0].Services; len(got) != 2 {
		t.Errorf("they share it: %v", got)
	}
}

// unfollowed has the endpoints of a Service in EndpointSlices that its proxy does not follow.
func unfollowed(s Service) Service {
	s.Endpoints = map[lb.Family]advertise.Spread{lb.IPv4: {NotFollowed: true}}
	return s
}

func TestRulesOfKubeProxyThatAreGoneSayNothingOfAVIPThatAnotherProxyServes(t *testing.T) {
	c := Cluster{Nodes: map[string]Node{"w1": {NoRules: true}, "w2": {NoRules: true}}, Services: []Service{service("web", "203.0.113.5", false, "w1"), service("elsewhere", "203.0.113.6", false, "w1")}}
	c.Services[1].Labels = map[string]string{lb.ServiceProxyLabel: "other"}
	all := UnannouncedOf(edited(t), c)
	if len(all) != 1 || all[0].Addr != c.Services[0].VIPs[0] || all[0].Reason != lb.ProxyRulesLost {
		t.Errorf("%v", all)
	}
}

func TestAKubeProxyThatDoesNotServeKeepsEveryVIPFromItsMachine(t *testing.T) {
	c := Cluster{Nodes: map[string]Node{"w1": {ProxyRefuses: true}, "w2": {ProxyRefuses: true}}, Services: []Service{service("web", "203.0.113.5", false, "w1"), service("elsewhere", "203.0.113.6", false, "w1")}}
	c.Services[1].Labels = map[string]string{lb.ServiceProxyLabel: "other"}
	all := UnannouncedOf(edited(t), c)
	if len(all) != 2 || all[0].Reason != lb.ProxyUnhealthy || all[1].Reason != lb.ProxyUnhealthy {
		t.Errorf("%v", all)
	}
	c.Nodes["w2"] = Node{}
	if all := UnannouncedOf(edited(t), c); len(all) > 0 {
		t.Errorf("another machine announces them: %v", all)
	}
}

// TestEveryVIPIsAnnouncedOrHasAReason also holds it against who announces, without the Nodes' word.
func TestEveryVIPIsAnnouncedOrHasAReason(t *testing.T) {
	inv := edited(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		unannounced := map[netip.Addr]Unannounced{}
		for _, u := range UnannouncedOf(inv, c) {
			if u.Reason == "" || len(u.Services) == 0 || words[u.Reason] == "" {
				t.Fatalf("%+v", u)
			}
			unannounced[u.Addr] = u
		}
		for _, vip := range Of(inv, c, Failures{}).VIPs {
			if _, not := unannounced[vip.Addr]; not != (len(vip.By) == 0) {
				t.Fatalf("%v is announced by %v, and said to be unannounced is %v", vip.Addr, vip.By, not)
			}
		}
	})
}

func TestEveryReasonOfAPlanHasWords(t *testing.T) {
	for _, r := range nearest {
		if words[r] == "" {
			t.Errorf("%s has no words", r)
		}
	}
	for r := range words {
		said := []lb.Reason{lb.NoSessionUp, lb.NoAgent, lb.NoMachineKnown, lb.AddressConflict, lb.AnsweredByOther, lb.AddressOnInterface, lb.NotAnsweredOnWire}
		if !slices.Contains(said, r) && rank(r) == len(nearest) { // of agents, and of no plan
			t.Errorf("%s has no rank", r)
		}
	}
}

func TestAVIPOnALinkThatAStrangerClaimsIsToldWithTheStrangersMAC(t *testing.T) {
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks: [{name: shelf, subnets: [192.168.1.0/24], machines: [{name: nuc1, addresses: [192.168.1.11]}, {name: nuc2, addresses: [192.168.1.12]}]}]
  pools: [{name: lan, addresses: [192.168.1.200-192.168.1.219]}]
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	vip := netip.MustParseAddr("192.168.1.200")
	c := Cluster{Nodes: map[string]Node{}, Services: []Service{{
		Key: lb.ServiceKey{Namespace: "default", Name: "web"}, VIPs: []netip.Addr{vip},
		Endpoints: map[lb.Family]advertise.Spread{lb.IPv4: {Ready: map[string]int{"nuc1": 1}}},
	}}}
	for _, name := range []string{"nuc1", "nuc2"} {
		c.Nodes[name] = Node{Identity: inventory.NodeIdentity{Name: name}}
	}
	if all := UnannouncedOf(inv, c); len(all) != 0 {
		t.Fatalf("before it is claimed: %v", all)
	}
	n := c.Nodes["nuc2"]
	n.LinkProblems = []lb.LinkProblem{{On: vip.String(), Reason: lb.AddressConflict, Detail: "02:00:00:00:00:aa"}}
	c.Nodes["nuc2"] = n
	all := UnannouncedOf(inv, c)
	if len(all) != 1 || all[0].Reason != lb.AddressConflict || !strings.Contains(all[0].String(), "02:00:00:00:00:aa") {
		t.Fatalf("claimed by a stranger: %v", all)
	}
}
