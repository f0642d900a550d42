package provider

import (
	"errors"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

func TestTwoNodesOfOneMachineAreAnErrorOnBoth(t *testing.T) {
	c := cloudWith(t, machinesOfEveryState, nil)
	one, twin := nodeNamed("shared", ""), nodeNamed("twin", "k3s://shared")
	c.roster.add(one)
	if _, m, err := c.machineOf(one); err != nil || m.Name != "shared" {
		t.Fatalf("alone: %s, %v", m.Name, err)
	}
	c.roster.add(twin)
	for _, n := range []*v1.Node{one, twin} {
		var shared *sharedMachineError
		if _, _, err := c.machineOf(n); !errors.As(err, &shared) || !slices.Equal(shared.nodes, []string{"shared", "twin"}) {
			t.Errorf("node %s: %v", n.Name, err)
		}
	}
	c.roster.remove("twin")
	if _, _, err := c.machineOf(one); err != nil {
		t.Errorf("alone again: %v", err)
	}
}

func TestAnIDOfOursIsNeverOverruledByAName(t *testing.T) {
	c := cloudWith(t, machinesOfEveryState, nil)
	cases := map[string]struct {
		providerID string
		machine    string
	}{
		"no ID yet":                  {"", "active"},
		"its own":                    {"plinth://active", "active"},
		"a foreign one":              {"aws:///i-1", "active"},
		"of a machine that was here": {"plinth://predecessor", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, m, err := c.machineOf(nodeNamed("active", tc.providerID))
			if m.Name != tc.machine || (err == nil) != (tc.machine != "") || errors.Is(err, inventory.ErrNoMachine) {
				t.Errorf("%q, %v", m.Name, err)
			}
		})
	}
}

func TestPodCIDRsOfAnotherNodeAreNotGivenAgain(t *testing.T) {
	r := newRoster()
	other := nodeNamed("other", "")
	other.Spec.PodCIDRs = []string{"10.244.0.0/20"}
	r.add(other)
	for cidr, want := range map[string]bool{"10.244.3.0/24": true, "10.244.16.0/24": false, "10.0.0.0/8": true, "fd00::/64": false} {
		if _, taken := r.holder(routing.ParsePodCIDRs([]string{cidr}), "w1"); taken != want {
			t.Errorf("%s is taken: %t", cidr, taken)
		}
	}
	if _, taken := r.holder(routing.ParsePodCIDRs([]string{"10.244.0.0/24"}), "other"); taken {
		t.Error("a Node's own pod CIDRs are in its way")
	}
}

func TestTheRosterFollowsTheInformerAndTheInventory(t *testing.T) {
	c := cloudWith(t, machinesOfEveryState, nil)
	h := c.roster.handler()
	h.OnAdd(nodeNamed("active", ""), true)
	h.OnAdd(nodeNamed("stranger", ""), true)
	nodes, machines, ok := c.roster.orphans()
	if !ok || !slices.Equal(nodes, []string{"stranger"}) || !slices.Equal(machines, []string{"held", "maintenance", "other", "shared"}) {
		t.Errorf("without a counterpart: %v, %v", nodes, machines)
	}
	h.OnUpdate(nodeNamed("stranger", ""), nodeNamed("stranger", "k3s://shared"))
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "active"})
	nodes, machines, _ = c.roster.orphans()
	if len(nodes) > 0 || !slices.Equal(machines, []string{"active", "held", "maintenance", "other"}) {
		t.Errorf("without a counterpart: %v, %v", nodes, machines)
	}
	c.inForce.Set(&inventory.Inventory{Name: "dc1"})
	if nodes, _, _ = c.roster.orphans(); !slices.Equal(nodes, []string{"stranger"}) {
		t.Errorf("with an empty inventory: %v", nodes)
	}
}

func TestNodeIPsThatTheMachineDoesNotHave(t *testing.T) {
	c := cloudWith(t, machinesOfEveryState, nil)
	m, _ := c.inventory().Machine("active")
	for given, want := range map[string]int{"10.10.1.11": 0, "10.10.1.99": 1, "10.10.1.11,fd00::1": 1, "::ffff:10.10.1.11": 0, "junk": 1} {
		if got := unknownIPs(given, m); len(got) != want {
			t.Errorf("%s: %v", given, got)
		}
	}
}

func TestNodesThatShareAPodCIDRAreFoundOnBothSides(t *testing.T) {
	for _, c := range []struct {
		name string
		has  map[string][]string // by Node
		want map[string]string
	}{
		{"each has its own", map[string][]string{"a": {"10.0.1.0/24", "fd00:1::/64"}, "b": {"10.0.2.0/24", "fd00:2::/64"}}, map[string]string{}},
		{"the same", map[string][]string{"a": {"10.0.1.0/24"}, "b": {"10.0.1.0/24"}}, map[string]string{"a": "b", "b": "a"}},
		{"one within another", map[string][]string{"a": {"10.0.0.0/16"}, "b": {"10.0.7.0/24"}, "c": {"10.1.0.0/24"}}, map[string]string{"a": "b", "b": "a"}},
		{"in one family alone", map[string][]string{"a": {"10.0.1.0/24", "fd00::/64"}, "b": {"10.0.2.0/24", "fd00::/64"}}, map[string]string{"a": "b", "b": "a"}},
		{"three", map[string][]string{"a": {"10.0.0.0/16"}, "b": {"10.0.1.0/24"}, "c": {"10.0.2.0/24"}}, map[string]string{"a": "b", "b": "a", "c": "a"}},
		{"its own twice", map[string][]string{"a": {"10.0.0.0/16", "10.0.1.0/24"}}, map[string]string{}},
	} {
		r := newRoster()
		for name, cidrs := range c.has {
			r.add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{PodCIDRs: cidrs}})
		}
		if got := r.shared(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
