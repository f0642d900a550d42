package preview

import (
	"fmt"
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
	"plinth.dev/plinth/sorted"
)

const datacenter = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  pools:
  - {name: public, addresses: [203.0.113.0/25]}
  - {name: inner, addresses: [198.51.100.0/28], advertise: {racks: [r2]}}
  racks:
  - name: r1
    routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]
    machines: [{name: w1, addresses: [10.1.0.11]}, {name: w2, addresses: [10.1.0.12]}]
  - name: r2
    routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]
    machines: [{name: w3, addresses: [10.2.0.13]}]
`

// edited is the datacenter with pairs of texts replaced.
func edited(t fataler, edits ...string) *inventory.Inventory {
	t.Helper()
	text := datacenter
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("%q is not there to be edited", edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	inv, problems := document.Load(document.Document{Source: "inventory.yaml", Data: []byte(text)})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// service holds a VIP and has endpoints on machines.
func service(name, vip string, local bool, machines ...string) Service {
	s := Service{Key: lb.ServiceKey{Namespace: "default", Name: name}, VIPs: []netip.Addr{netip.MustParseAddr(vip)}, LocalTraffic: local}
	ready := map[string]int{}
	for _, m := range machines {
		ready[m]++
	}
	s.Endpoints = map[lb.Family]advertise.Spread{lb.FamilyOf(s.VIPs[0]): {Ready: ready}}
	return s
}

func nodes(names ...string) map[string]Node {
	all := map[string]Node{}
	for _, n := range names {
		all[n] = Node{}
	}
	return all
}

func TestWhoAnnouncesWhat(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{
		service("web", "203.0.113.7", false, "w1"),
		service("local", "203.0.113.8", true, "w2", "w2"),
		service("inner", "198.51.100.1", false, "w1"),
		service("none", "203.0.113.9", false),
		service("lost", "192.0.2.1", false, "w1"),
	}}
	for _, tt := range []struct {
		what    string
		cluster Cluster
		failed  Failures
		vip     string
		by      string
		reasons map[lb.Reason]int
	}{
		{what: "every machine", cluster: c, vip: "203.0.113.7", by: "w1/tor-r1 w2/tor-r1 w3/tor-r2"},
		{what: "the one with endpoints", cluster: c, vip: "203.0.113.8", by: "w2/tor-r1", reasons: map[lb.Reason]int{lb.NoLocalEndpoint: 2}},
		{what: "those of the pool's rack", cluster: c, vip: "198.51.100.1", by: "w3/tor-r2", reasons: map[lb.Reason]int{lb.PoolLimitedToRacks: 2}},
		{what: "nobody without endpoints", cluster: c, vip: "203.0.113.9", reasons: map[lb.Reason]int{lb.NoEndpoint: 3}},
		{what: "nobody outside pools", cluster: c, vip: "192.0.2.1", reasons: map[lb.Reason]int{lb.VIPOutsidePools: 3}},
		{what: "without a dead machine", cluster: c, failed: Failures{Machines: map[string]bool{"w2": true}}, vip: "203.0.113.7", by: "w1/tor-r1 w3/tor-r2"},
		{what: "nobody where the endpoints died with their machine", cluster: c, failed: Failures{Machines: map[string]bool{"w1": true}}, vip: "203.0.113.7", reasons: map[lb.Reason]int{lb.NoEndpoint: 2}},
		{what: "without a dead router", cluster: c, failed: Failures{Routers: map[string]bool{"tor-r1": true}}, vip: "203.0.113.7", by: "w3/tor-r2"},
		{what: "a machine without a Node has no agent", cluster: Cluster{Nodes: nodes("w3"), Services: c.Services}, vip: "203.0.113.7", by: "w3/tor-r2"},
		{what: "where no Node is known all count", cluster: Cluster{Services: c.Services}, vip: "203.0.113.7", by: "w1/tor-r1 w2/tor-r1 w3/tor-r2"},
		{what: "a Node can be excluded", cluster: Cluster{Nodes: map[string]Node{"w1": {Excluded: true}, "w3": {}}, Services: c.Services}, vip: "203.0.113.7", by: "w3/tor-r2",
			reasons: map[lb.Reason]int{lb.NodeExcluded: 1}},
	} {
		vip, ok := Of(edited(t), tt.cluster, tt.failed).VIP(netip.MustParseAddr(tt.vip))
		var by []string
		for _, a := range vip.By {
			by = append(by, a.Machine+"/"+a.Router)
		}
		if !ok || strings.Join(by, " ") != tt.by {
			t.Errorf("%s: %v", tt.what, by)
		}
		if tt.reasons == nil {
			tt.reasons = map[lb.Reason]int{}
		}
		if diff := cmp.Diff(tt.reasons, vip.Reasons); diff != "" {
			t.Errorf("%s: %s", tt.what, diff)
		}
	}
}

func TestWhatAnEditTakesFromEverybody(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{
		service("a", "203.0.113.77", false, "w1"),
		service("b", "203.0.113.77", false, "w2"), // they share it
		service("inner", "198.51.100.1", false, "w1"),
		service("local", "203.0.113.5", true, "w1"),
		service("none", "203.0.113.6", false),
	}}
	silent := Cluster{Nodes: map[string]Node{"w1": {}, "w2": {}, "w3": {Silent: true}}, Services: c.Services}
	for _, tt := range []struct {
		what    string
		cluster Cluster
		edit    []string
		lost    string
	}{
		{"nothing changes", c, nil, ""},
		{"a pool is shrunk", c, []string{"203.0.113.0/25", "203.0.113.0/30"}, "service default/local loses 203.0.113.5: no pool has it; service default/none loses 203.0.113.6: no pool has it; service default/a, default/b loses 203.0.113.77: no pool has it"},
		{"a pool is shrunk where nobody has an address", c, []string{"198.51.100.0/28", "198.51.100.0/29"}, ""},
		{"a pool is disabled", c, []string{"[198.51.100.0/28],", "[198.51.100.0/28], state: disabled,"}, "service default/inner loses 198.51.100.1: its pool is disabled"},
		{"the only machine of a pool's rack is in maintenance", c, []string{"10.2.0.13]", "10.2.0.13], state: maintenance"}, "service default/inner loses 198.51.100.1: no machine for it is active"},
		{"the machine with the endpoints is off", c, []string{"10.1.0.11]", "10.1.0.11], state: off"}, "service default/local loses 203.0.113.5: no machine for it is active"},
		{"a pool is announced for other Services", c, []string{"advertise: {racks: [r2]}", "advertise: [{racks: [r1], serviceSelector: {matchLabels: {tier: gold}}}]"}, "service default/inner loses 198.51.100.1: no advertisement of its pool selects its Service"},
		{"a pool is announced for all Services in one of two ways", c, []string{"advertise: {racks: [r2]}", "advertise: [{racks: [r1], serviceSelector: {matchLabels: {tier: gold}}}, {racks: [r2]}]"}, ""},
		{"a pool goes to another rack", c, []string{"racks: [r2]", "racks: [r1]"}, ""},
		{"a pool goes to routers that its rack does not have", c, []string{"racks: [r2]", "racks: [r2], routers: [tor-r1]"}, "service default/inner loses 198.51.100.1: its pool is announced to routers that no machine has a session with"},
		{"what is left is silent", silent, []string{"{name: public,", "{name: public, advertise: {racks: [r2]},"}, "service default/local loses 203.0.113.5: its pool is announced from racks that have no machine for it; service default/none loses 203.0.113.6: its pool is announced from racks that have no machine for it; service default/a, default/b loses 203.0.113.77: its pool is announced from racks that have no machine for it"},
		{"the last way is silent, and is taken", silent, []string{"racks: [r2]", "racks: [r2], routers: [tor-r1]"}, "service default/inner loses 198.51.100.1: its pool is announced to routers that no machine has a session with"},
		{"a machine that has fallen silent is taken out of service", silent, []string{"10.2.0.13]", "10.2.0.13], state: off"}, ""},
		{"the Node of the last way is gone, and its agent may go on", Cluster{Nodes: nodes("w1", "w2"), Services: c.Services}, []string{"[198.51.100.0/28],", "[198.51.100.0/28], state: disabled,"}, "service default/inner loses 198.51.100.1: its pool is disabled"},
		{"all Nodes are gone", Cluster{Nodes: map[string]Node{}, Services: c.Services}, []string{"[198.51.100.0/28],", "[198.51.100.0/28], state: disabled,"}, "service default/inner loses 198.51.100.1: its pool is disabled"},
		{"a Node has another name than its machine", named("n3", "plinth://w3"), []string{"[198.51.100.0/28],", "[198.51.100.0/28], state: disabled,"}, "service default/inner loses 198.51.100.1: its pool is disabled"},
		{"a machine has another name, and keeps its id", named("w3", "plinth://w3"), []string{"{name: w3,", "{name: w9, id: w3,"}, ""},
		{"another machine is in the place of the last way", named("w3", "plinth://w3"), []string{"{name: w3,", "{name: w3, id: SN-9,"}, "service default/inner loses 198.51.100.1: its pool is announced from racks that have no machine for it; service default/local loses 203.0.113.5: no machine that could announce it has an endpoint"},
	} {
		var lost []string
		for _, vip := range Unreachable(edited(t), edited(t, tt.edit...), tt.cluster) {
			lost = append(lost, vip.String())
		}
		if got := strings.Join(lost, "; "); got != tt.lost {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.what, got, tt.lost)
		}
	}
}

// named is a cluster in which the Node of machine w3 has a name and a provider ID.
func named(name, providerID string) Cluster {
	c := Cluster{Nodes: nodes("w1", "w2"), Services: []Service{service("inner", "198.51.100.1", false, "w1"), service("local", "203.0.113.5", true, name)}}
	c.Nodes[name] = Node{Identity: inventory.NodeIdentity{ProviderID: providerID}}
	return c
}

// TestAFamilyWithoutEndpointsSaysNothingOfTheOther: a Service of both families may have pods of one.
func TestAFamilyWithoutEndpointsSaysNothingOfTheOther(t *testing.T) {
	both := service("local", "203.0.113.5", true, "w1")
	both.VIPs = append(both.VIPs, netip.MustParseAddr("2001:db8::5"))
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{both}}
	lost := Unreachable(edited(t), edited(t, "10.1.0.11]", "10.1.0.11], state: off"), c)
	if len(lost) != 1 || lost[0].Addr != both.VIPs[0] {
		t.Errorf("the only machine with an endpoint goes, and lost is %v", lost)
	}
}

// drawCluster draws Services with endpoints of every kind on the machines.
func drawCluster(t *rapid.T) Cluster {
	c := Cluster{Nodes: map[string]Node{}}
	for _, m := range []string{"w1", "w2", "w3"} {
		if rapid.Float64().Draw(t, "there") > 0.1 {
			c.Nodes[m] = Node{Excluded: rapid.Float64().Draw(t, "excluded") > 0.9}
		}
	}
	vips := []string{"203.0.113.7", "203.0.113.8", "198.51.100.1", "192.0.2.1"}
	for i := range rapid.IntRange(1, 8).Draw(t, "services") {
		s := service(fmt.Sprint(i), rapid.SampledFrom(vips).Draw(t, "vip"), rapid.Bool().Draw(t, "local"))
		s.Labels = map[string]string{"tier": rapid.SampledFrom([]string{"gold", "iron", "tin"}).Draw(t, "tier"), "metal": rapid.SampledFrom([]string{"soft", "hard"}).Draw(t, "metal")}
		count := rapid.MapOfN(rapid.SampledFrom([]string{"w1", "w2", "w3", "w4"}), rapid.IntRange(1, 3), 0, 3)
		s.Endpoints[lb.IPv4] = advertise.Spread{Ready: count.Draw(t, "ready"), Ending: count.Draw(t, "ending")}
		c.Services = append(c.Services, s)
	}
	return c
}

// TestAPreviewSaysWhatEveryMachineWouldPlan holds the preview against the plans themselves, of each machine for all Services that share a VIP.
func TestAPreviewSaysWhatEveryMachineWouldPlan(t *testing.T) {
	inv := edited(t, "[203.0.113.0/25]", "[203.0.113.0/25], advertise: ["+
		"{serviceSelector: {matchLabels: {tier: gold}}, aggregate: {ipv4: 28}, weighted: true}, "+
		"{serviceSelector: {matchLabels: {tier: iron}}}, {serviceSelector: {matchLabels: {metal: soft}}, racks: [r1], weighted: true}]")
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		for _, vip := range Of(inv, c, Failures{}).VIPs {
			var planned []Announcement
			for m := range inv.Machines() {
				if node, there := c.Nodes[m.Name]; there {
					planned = append(planned, plannedBy(inv, m, node, vip.Addr, c.Services)...)
				}
			}
			by := slices.Clone(vip.By)
			for i := range by {
				by[i].Order = 0 // no plan tells it
			}
			slices.SortFunc(planned, Announcement.compare)
			if !slices.Equal(by, planned) {
				t.Fatalf("%v is announced by %v, planned by %v", vip.Addr, by, planned)
			}
		}
	})
}

// plannedBy are the announcements of a VIP in the plan of one machine for those that hold it.
func plannedBy(inv *inventory.Inventory, m inventory.Machine, node Node, vip netip.Addr, all []Service) (planned []Announcement) {
	var offers []advertise.Offer
	for _, s := range all {
		if slices.Contains(s.VIPs, vip) {
			offers = append(offers, advertise.Offer{
				Service: s.Key, VIP: vip, LocalTraffic: s.LocalTraffic, Endpoints: s.Endpoints[lb.FamilyOf(vip)].At(m.Name), Labels: advertise.LabelsOf(s.Labels, inv.AdvertiseLabels()),
			})
		}
	}
	plan := advertise.PlanOf(advertise.View{Inventory: inv, Machine: m, Excluded: node.Excluded, ProxyHealthy: true, Offers: sorted.Of(offers...)})
	for _, session := range plan.Sessions {
		var narrow *advertise.Advertisement // the narrowest of the prefixes around the VIP: a router goes by it
		for a := range session.Advertisements.All() {
			if narrow == nil || a.Prefix.Bits() > narrow.Prefix.Bits() {
				narrow = &a
			}
		}
		if narrow != nil {
			planned = append(planned, Announcement{m.Name, advertise.Hop{
				Router: session.Session.Router, Weight: narrow.Bandwidth, Worse: narrow.Communities.Has(inventory.GracefulShutdown), Bits: narrow.Prefix.Bits(),
			}})
		}
	}
	return planned
}

func TestASpreadCountsAsAMachineDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []advertise.Endpoint
		spread := advertise.Spread{Ready: map[string]int{}, Ending: map[string]int{}}
		for range rapid.IntRange(0, 6).Draw(t, "endpoints") {
			machine := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "machine")
			e := advertise.Endpoint{Local: machine == "w1", Ready: rapid.Bool().Draw(t, "ready"), NotFollowed: rapid.Bool().Draw(t, "not followed")}
			switch {
			case e.NotFollowed:
				e.Serving, e.Terminating, spread.NotFollowed = true, true, true
			case e.Ready:
				spread.Ready[machine]++
			default:
				e.Serving, e.Terminating = true, true
				spread.Ending[machine]++
			}
			all = append(all, e)
		}
		if got, want := spread.At("w1"), advertise.Count(all); got != want {
			t.Fatalf("%+v, counted %+v of %+v", got, want, all)
		}
	})
}
