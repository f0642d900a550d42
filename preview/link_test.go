package preview

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// homeText is a subnet without a router that two racks are on; one of them is on another subnet, too.
const homeText = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  pools:
  - {name: lan, addresses: [192.168.1.200-192.168.1.219]}
  - {name: attic, addresses: [192.168.1.230-192.168.1.239], advertise: {racks: [attic]}}
  racks:
  - {name: shelf, subnets: [192.168.1.0/24], machines: [{name: nuc1, addresses: [192.168.1.11]}, {name: nuc2, addresses: [192.168.1.12]}]}
  - {name: attic, subnets: [192.168.1.0/24], machines: [{name: pi1, addresses: [192.168.1.21]}]}
`

func homeWith(t fataler, edits ...string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(strings.NewReplacer(edits...).Replace(homeText))})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// homeCluster has a Service that everybody serves, one with local traffic, and one that only the attic
// may answer for.
func homeCluster() Cluster {
	c := Cluster{Nodes: nodes("nuc1", "nuc2", "pi1"), Services: []Service{
		service("web", "192.168.1.200", false, "pi1"), service("local", "192.168.1.201", true, "nuc2"), service("attic", "192.168.1.230", false, "nuc1"),
	}}
	c.Homes = map[netip.Addr][]string{
		netip.MustParseAddr("192.168.1.200"): {"nuc2", "pi1", "nuc1"}, netip.MustParseAddr("192.168.1.201"): {"nuc1", "nuc2", "pi1"}, netip.MustParseAddr("192.168.1.230"): {"pi1"},
	}
	return c
}

// whoAnswers lists who announces each VIP.
func whoAnswers(p *Preview) string {
	var all []string
	for _, v := range p.VIPs {
		by := "nobody"
		if len(v.By) > 0 {
			by = v.By[0].Machine
		}
		all = append(all, by)
	}
	return strings.Join(all, " ")
}

func TestAVIPOnALinkIsAnsweredForByItsOwner(t *testing.T) {
	failing := func(names ...string) Failures {
		f := Failures{Machines: map[string]bool{}}
		for _, n := range names {
			f.Machines[n] = true
		}
		return f
	}
	with := func(change func(*Cluster)) Cluster {
		c := homeCluster()
		c.Nodes = maps.Clone(c.Nodes)
		change(&c)
		return c
	}
	for _, tt := range []struct {
		what    string
		cluster Cluster
		failed  Failures
		edits   []string
		want    string
	}{
		{"the first home answers, or who has the endpoint", homeCluster(), Failures{}, nil, "nuc2 nuc2 pi1"},
		{"the owner fails: the next in order", homeCluster(), failing("nuc2"), nil, "pi1 nobody pi1"},
		{"who has the endpoints fails, too", homeCluster(), failing("nuc2", "pi1"), nil, "nobody nobody nobody"},
		{"two of three fail", homeCluster(), failing("nuc1", "nuc2"), nil, "pi1 nobody nobody"},
		{"all fail", homeCluster(), failing("nuc1", "nuc2", "pi1"), nil, "nobody nobody nobody"},
		{"the owner is in maintenance", homeCluster(), Failures{}, []string{"192.168.1.12]", "192.168.1.12], state: maintenance"}, "pi1 nobody pi1"},
		{"the owner is excluded", with(func(c *Cluster) { c.Nodes["nuc2"] = Node{Excluded: true} }), Failures{}, nil, "pi1 nobody pi1"},
		{"the owner has no agent", with(func(c *Cluster) { c.Nodes["nuc2"] = Node{NoAgent: true} }), Failures{}, nil, "pi1 nobody pi1"},
		{"another one answers", with(func(c *Cluster) { c.Owners = map[netip.Addr]string{c.Services[0].VIPs[0]: "nuc1"} }), Failures{}, nil, "nuc1 nuc2 pi1"},
		{"another one answers, and fails", with(func(c *Cluster) { c.Owners = map[netip.Addr]string{c.Services[0].VIPs[0]: "nuc1"} }), failing("nuc1"), nil, "nuc2 nuc2 nobody"},
		{"a pin", with(func(c *Cluster) { c.Services[0].Home = "nuc1" }), Failures{}, nil, "nuc1 nuc2 pi1"},
		{"the pool is disabled", homeCluster(), Failures{}, []string{"192.168.1.219]", "192.168.1.219], state: disabled"}, "nobody nobody pi1"},
	} {
		p := Of(homeWith(t, tt.edits...), tt.cluster, tt.failed)
		if got := whoAnswers(p); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
	v, _ := Of(homeWith(t), homeCluster(), Failures{}).VIP(netip.MustParseAddr("192.168.1.200"))
	if want := []Announcement{{"nuc2", advertise.Hop{Router: "link 192.168.1.0/24"}}}; !slices.Equal(v.By, want) || !v.By[0].OnLink() || !slices.Equal(v.Able, []string{"nuc1", "nuc2", "pi1"}) {
		t.Errorf("%+v", v)
	}
}

// TestAFailureMovesAVIPOnALinkToTheNextAndTellsWhenOneIsLeft: and one that returns takes nothing back.
func TestAFailureMovesAVIPOnALinkToTheNextAndTellsWhenOneIsLeft(t *testing.T) {
	inv := homeWith(t)
	c := homeCluster()
	c.Services[0] = service("web", "192.168.1.200", false, "nuc1", "nuc2", "pi1")
	fails := func(names ...string) Outcome {
		f := Failures{Machines: map[string]bool{}}
		for _, n := range names {
			f.Machines[n] = true
		}
		return Compare(Simulate(inv, inv, c, f))
	}
	told := func(o Outcome) string {
		var all []string
		for _, v := range o.VIPs {
			machine, router := v.LeftWithOne()
			all = append(all, fmt.Sprintf("%s %v lost %q left %q%s", v.Is.Addr, v.Shifts(), v.Why, machine, router))
		}
		for _, h := range o.Hops() {
			all = append(all, fmt.Sprintf("%s: %v -> %v", h.Router, h.Was, h.Is))
		}
		return strings.Join(all, "\n")
	}
	for _, tt := range []struct{ what, got, want string }{
		{"the owner", told(fails("nuc2")), "192.168.1.200 true lost \"\" left \"\"\n192.168.1.201 true lost \"its Service has no endpoint\" left \"\"\nlink 192.168.1.0/24: nuc2 -> pi1"},
		{"another one", told(fails("nuc1")), "192.168.1.230 true lost \"its Service has no endpoint\" left \"\""},
		{"the others", told(fails("nuc1", "pi1")), "192.168.1.200 false lost \"\" left \"nuc2\"\n192.168.1.230 true lost \"its pool is announced from racks that have no machine for it\" left \"\""},
		{"all", told(fails("nuc1", "nuc2", "pi1")), "192.168.1.200 true lost \"no machine is left on the link 192.168.1.0/24\" left \"\"\n192.168.1.201 true lost \"no machine is left on the link 192.168.1.0/24\" left \"\"\n192.168.1.230 true lost \"no machine is left on the link 192.168.1.0/24\" left \"\""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s fails:\ngot\n%s\nwant\n%s", tt.what, tt.got, tt.want)
		}
	}
	now := Of(inv, c, Failures{}).With(Failures{Machines: map[string]bool{"nuc2": true}})
	if again := now.With(Failures{Machines: map[string]bool{"nuc1": true}}); whoAnswers(again) != "pi1 nobody nobody" {
		t.Errorf("after another failure %s answer", whoAnswers(again))
	}
}

func TestAnEditThatTakesTheLastMachineOfALinkAwayIsALoss(t *testing.T) {
	for _, tt := range []struct{ what, old, new, lost string }{
		{"the only machine that may is off", "192.168.1.21]", "192.168.1.21], state: off", "service default/attic loses 192.168.1.230: no machine for it is active"},
		{"one of three is off", "192.168.1.12]", "192.168.1.12], state: off", "service default/local loses 192.168.1.201: no machine for it is active"},
		{"its pool is for nobody there", "racks: [attic]", "serviceSelector: {matchLabels: {a: b}}", "service default/attic loses 192.168.1.230: no advertisement of its pool selects its Service"},
	} {
		l := Losses(homeWith(t), homeWith(t, tt.old, tt.new), homeCluster())
		var got []string
		for _, v := range l.Unreachable {
			got = append(got, v.String())
		}
		if strings.Join(got, "; ") != tt.lost || len(l.Switched) > 0 {
			t.Errorf("%s: %q, switched %v; want %q", tt.what, got, l.Switched, tt.lost)
		}
	}
	said := "192.168.1.239], advertise: {racks: [attic]}"
	l := Losses(homeWith(t), homeWith(t, "subnets: [192.168.1.0/24], ", "", said, said), homeCluster())
	if len(l.Switched) != 3 || l.Switched[0].String() != "192.168.1.200 of service default/web goes from the link 192.168.1.0/24 to BGP" {
		t.Errorf("the racks lose the subnet, and switched is %v", l.Switched)
	}
}

func TestWhyNobodyAnswersForAVIPOnALink(t *testing.T) {
	off := []string{"192.168.1.11]", "192.168.1.11], state: off", "192.168.1.12]", "192.168.1.12], state: off", "192.168.1.21]", "192.168.1.21], state: off"}
	for _, tt := range []struct {
		what   string
		edits  []string
		change func(*Cluster)
		want   []lb.Reason // of the three VIPs
	}{
		{"all is well", nil, func(*Cluster) {}, nil},
		{"no session with a router is up, and none is needed", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{NoSession: true}
			}
		}, nil},
		{"the owner has no carrier, and others can", nil, func(c *Cluster) {
			c.Nodes["nuc2"] = Node{LinkProblems: []lb.LinkProblem{{On: "192.168.1.0/24", Reason: lb.NoCarrier}}}
		}, []lb.Reason{lb.NoCarrier}}, // of the Service with local traffic
		{"nobody sees the gateway", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{LinkProblems: []lb.LinkProblem{{On: "192.168.1.0/24", Reason: lb.WitnessSilent}}}
			}
		}, []lb.Reason{lb.WitnessSilent, lb.WitnessSilent, lb.WitnessSilent}},
		{"no kube-proxy serves", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{ProxyRefuses: true}
			}
		}, []lb.Reason{lb.ProxyUnhealthy, lb.ProxyUnhealthy, lb.ProxyUnhealthy}},
		{"one kube-proxy serves", nil, func(c *Cluster) {
			c.Nodes["nuc1"], c.Nodes["nuc2"] = Node{ProxyRefuses: true}, Node{ProxyRefuses: true}
		},
			[]lb.Reason{lb.ProxyUnhealthy}}, // of the Service with local traffic
		{"another link has a problem", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{LinkProblems: []lb.LinkProblem{{On: "192.168.9.0/24", Reason: lb.WitnessSilent}}}
			}
		}, nil},
		{"a stranger has one", nil, func(c *Cluster) {
			c.Nodes["nuc2"] = Node{LinkProblems: []lb.LinkProblem{{On: "192.168.1.200", Reason: lb.AddressConflict}}}
		}, []lb.Reason{lb.AddressConflict}},
		{"no agent runs", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{NoAgent: true}
			}
		}, []lb.Reason{lb.NoMachineKnown, lb.NoMachineKnown, lb.NoMachineKnown}},
		{"all are excluded", nil, func(c *Cluster) {
			for name := range c.Nodes {
				c.Nodes[name] = Node{Excluded: true}
			}
		}, []lb.Reason{lb.NodeExcluded, lb.NodeExcluded, lb.NodeExcluded}},
		{"all are off", off, func(*Cluster) {}, []lb.Reason{lb.MachineNotActive, lb.MachineNotActive, lb.MachineNotActive}},
		{"no endpoint", nil, func(c *Cluster) { c.Services = []Service{service("web", "192.168.1.200", false)} }, []lb.Reason{lb.NoEndpoint}},
		{"no endpoint here", nil, func(c *Cluster) { c.Services = []Service{service("web", "192.168.1.200", true, "elsewhere")} }, []lb.Reason{lb.NoLocalEndpoint}},
	} {
		c := homeCluster()
		c.Nodes = maps.Clone(c.Nodes)
		tt.change(&c)
		var got []lb.Reason
		for _, u := range UnannouncedOf(homeWith(t, tt.edits...), c) {
			got = append(got, u.Reason)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestAVIPOnALinkHasOneOwnerWhereAnyMachineCan, whatever fails, and it stays where it is while it can.
func TestAVIPOnALinkHasOneOwnerWhereAnyMachineCan(t *testing.T) {
	inv := homeWith(t)
	rapid.Check(t, func(t *rapid.T) {
		c := Cluster{Nodes: nodes("nuc1", "nuc2", "pi1")}
		for i := range rapid.IntRange(1, 6).Draw(t, "services") {
			c.Services = append(c.Services, service(fmt.Sprint(i), fmt.Sprintf("192.168.1.%d", 200+i), false, "nuc1", "nuc2", "pi1"))
		}
		before := Of(inv, c, Failures{})
		failed := Failures{Machines: map[string]bool{}}
		for _, m := range []string{"nuc1", "nuc2", "pi1"} {
			failed.Machines[m] = rapid.Bool().Draw(t, "fails")
		}
		after := before.With(failed)
		for i, v := range after.VIPs {
			was := before.VIPs[i].By
			switch all := failed.Machines; {
			case len(was) != 1:
				t.Fatalf("%v has %d owners", v.Addr, len(was))
			case all["nuc1"] && all["nuc2"] && all["pi1"]:
				if len(v.By) > 0 {
					t.Fatalf("%v is answered for by %v", v.Addr, v.By)
				}
			case len(v.By) != 1 || all[v.By[0].Machine] || !all[was[0].Machine] && v.By[0] != was[0]:
				t.Fatalf("%v was answered for by %v, and is by %v with %v gone", v.Addr, was, v.By, all)
			}
		}
	})
}
