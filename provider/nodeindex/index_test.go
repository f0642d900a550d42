package nodeindex

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/routing"
)

const machines = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]
  racks:
    - name: r01
      machines:
        - {name: active, addresses: [10.10.1.11]}
        - {name: maintenance, addresses: [10.10.1.12], state: maintenance, reason: disks}
        - {name: "off", addresses: [10.10.1.13], state: "off", reason: summer}
        - {name: planned, addresses: [10.10.1.14], state: planned}
        - {name: other, addresses: [10.10.1.17], match: {systemUUID: 00000000-0000-0000-0000-000000000001}}
        - {name: shared, addresses: [10.10.1.18], aliases: ["k3s://shared"]}
`

// indexed returns an Index of these machines.
func indexed(t *testing.T) *Index {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(machines)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	x := empty(t)
	x.Reindex(inv)
	return x
}

// empty returns an Index without an inventory, of an informer that the test fills.
func empty(t *testing.T) *Index {
	t.Helper()
	x := New()
	if err := x.Use(cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Node{}, 0, cache.Indexers{})); err != nil {
		t.Fatal(err)
	}
	return x
}

// sees has the informer show a Node.
func (x *Index) sees(t *testing.T, node *v1.Node) {
	t.Helper()
	if err := x.nodes.Update(node); err != nil {
		t.Fatal(err)
	}
}

func nodeNamed(name, providerID string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: providerID}}
}

func TestTwoNodesOfOneMachineAreAnErrorOnBoth(t *testing.T) {
	x := indexed(t)
	one, twin := nodeNamed("shared", ""), nodeNamed("twin", "k3s://shared")
	x.sees(t, one)
	if _, m, err := x.MachineOf(one); err != nil || m.Name != "shared" {
		t.Fatalf("alone: %s, %v", m.Name, err)
	}
	x.sees(t, twin)
	for _, n := range []*v1.Node{one, twin} {
		var shared *claimedError
		if _, _, err := x.MachineOf(n); !errors.As(err, &shared) || !slices.Equal(shared.nodes, []string{"shared", "twin"}) {
			t.Errorf("node %s: %v", n.Name, err)
		}
	}
	if err := x.nodes.Delete(twin); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.MachineOf(one); err != nil {
		t.Errorf("alone again: %v", err)
	}
}

// TestANodeThatReportsAnothersSystemUUIDIsNotItsMachine: a kubelet writes its system UUID
// itself, and neither its name nor the provider ID that the controller gave it.
func TestANodeThatReportsAnothersSystemUUIDIsNotItsMachine(t *testing.T) {
	const uuid = "00000000-0000-0000-0000-000000000001"
	liar := nodeNamed("liar", "")
	liar.Status.NodeInfo.SystemUUID = uuid
	byUUID := func(n *v1.Node) *v1.Node { n.Status.NodeInfo.SystemUUID = uuid; return n }
	for name, holder := range map[string]*v1.Node{
		"by provider ID":           byUUID(nodeNamed("elsewhere", "plinth://other")),
		"by provider ID alone":     nodeNamed("elsewhere", "plinth://other"),
		"by name, not yet written": byUUID(nodeNamed("other", "")),
	} {
		t.Run(name, func(t *testing.T) {
			x := indexed(t)
			x.sees(t, liar)
			if _, m, err := x.MachineOf(liar); err != nil || m.Name != "other" {
				t.Errorf("alone it is %q, %v", m.Name, err)
			}
			for _, seen := range []string{"not observed yet", "observed"} {
				if _, m, err := x.MachineOf(holder); err != nil || m.Name != "other" {
					t.Errorf("%s: the machine's node is %q, %v", seen, m.Name, err)
				}
				x.sees(t, holder)
			}
			if _, m, err := x.MachineOf(liar); err == nil || errors.Is(err, inventory.ErrNoMachine) || !strings.Contains(err.Error(), holder.Name) {
				t.Errorf("the other is %q, %v", m.Name, err)
			}
		})
	}
	x := indexed(t)
	second := byUUID(nodeNamed("second", ""))
	x.sees(t, liar)
	x.sees(t, second)
	for _, n := range []*v1.Node{liar, second} {
		if _, m, err := x.MachineOf(n); err == nil {
			t.Errorf("where both have no more than that, %s is %q", n.Name, m.Name)
		}
	}
}

// Boards leave the factory with one and the same number, and the inventory has it of one machine.
func TestASystemUUIDThatSeveralBoardsHaveDecidesNothing(t *testing.T) {
	x := indexed(t)
	var all []*v1.Node
	for _, name := range []string{"active", "other", "stranger"} {
		n := nodeNamed(name, "")
		n.Status.NodeInfo.SystemUUID = "00000000-0000-0000-0000-000000000001" // of other
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		x.sees(t, n)
		all = append(all, n)
	}
	for _, id := range []string{"before they have one", "plinth://"} {
		for _, n := range all {
			if n.Name == "stranger" {
				if _, m, err := x.MachineOf(n); err == nil || !strings.Contains(err.Error(), "other") {
					t.Errorf("%s: the stranger is %q, %v", id, m.Name, err)
				}
				continue
			}
			if _, m, err := x.MachineOf(n); err != nil || m.Name != n.Name {
				t.Errorf("%s: %s is %q, %v", id, n.Name, m.Name, err)
			}
			if s := x.State(n); !s.UUIDShared || len(x.ReportingTheSame(n)) != 2 {
				t.Errorf("%s: of %s: shared %v, with %v", id, n.Name, s.UUIDShared, x.ReportingTheSame(n))
			}
			n.Spec.ProviderID = "plinth://" + n.Name
		}
	}
	for i, id := range Identities(all) {
		if id != x.State(all[i]).NodeIdentity {
			t.Errorf("asked alone it is %+v, asked with all others %+v", x.State(all[i]).NodeIdentity, id)
		}
	}
}

// What boards without a UUID report is no number that several have: nobody is told that others report it, too.
func TestWhatBoardsWithoutASystemUUIDReportIsNone(t *testing.T) {
	x := indexed(t)
	var all []*v1.Node
	for _, name := range []string{"active", "other"} {
		n := nodeNamed(name, "")
		n.Status.NodeInfo.SystemUUID = "00000000-0000-0000-0000-000000000000"
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		x.sees(t, n)
		all = append(all, n)
	}
	for i, n := range all {
		if _, m, err := x.MachineOf(n); err != nil || m.Name != n.Name { // though other has a match
			t.Errorf("%s is %q, %v", n.Name, m.Name, err)
		}
		if s := x.State(n); s.UUIDShared || len(x.ReportingTheSame(n)) > 0 || Identities(all)[i] != s.NodeIdentity {
			t.Errorf("%s: %+v, with %v", n.Name, s, x.ReportingTheSame(n))
		}
	}
}

func TestAnIDOfOursIsNeverOverruledByAName(t *testing.T) {
	x := indexed(t)
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
			_, m, err := x.MachineOf(nodeNamed("active", tc.providerID))
			if m.Name != tc.machine || (err == nil) != (tc.machine != "") || errors.Is(err, inventory.ErrNoMachine) {
				t.Errorf("%q, %v", m.Name, err)
			}
		})
	}
}

func TestPodCIDRsOfAnotherNodeAreNotGivenAgain(t *testing.T) {
	x := empty(t)
	other := nodeNamed("other", "")
	other.Spec.PodCIDRs = []string{"10.244.0.0/20"}
	x.sees(t, other)
	for cidr, want := range map[string]bool{"10.244.3.0/24": true, "10.244.16.0/24": false, "10.0.0.0/8": true, "fd00::/64": false} {
		if _, taken := x.PodCIDRHolder(routing.ParsePodCIDRs([]string{cidr}), "w1"); taken != want {
			t.Errorf("%s is taken: %t", cidr, taken)
		}
	}
	if _, taken := x.PodCIDRHolder(routing.ParsePodCIDRs([]string{"10.244.0.0/24"}), "other"); taken {
		t.Error("a Node's own pod CIDRs are in its way")
	}
}

func TestTheIndexFollowsTheInformerAndTheInventory(t *testing.T) {
	x := indexed(t)
	x.sees(t, nodeNamed("active", ""))
	x.sees(t, nodeNamed("stranger", ""))
	nodes, machines, ok := x.Unmatched()
	if !ok || !slices.Equal(nodes, []string{"stranger"}) || !slices.Equal(machines, []string{"maintenance", "other", "shared"}) {
		t.Errorf("unmatched: %v, %v", nodes, machines)
	}
	x.sees(t, nodeNamed("stranger", "k3s://shared"))
	if err := x.nodes.Delete(nodeNamed("active", "")); err != nil {
		t.Fatal(err)
	}
	nodes, machines, _ = x.Unmatched()
	if len(nodes) > 0 || !slices.Equal(machines, []string{"active", "maintenance", "other"}) {
		t.Errorf("unmatched: %v, %v", nodes, machines)
	}
	x.Reindex(&inventory.Inventory{Name: "dc1"})
	if nodes, _, _ = x.Unmatched(); !slices.Equal(nodes, []string{"stranger"}) {
		t.Errorf("with an empty inventory: %v", nodes)
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
		x := empty(t)
		for name, cidrs := range c.has {
			x.sees(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{PodCIDRs: cidrs}})
		}
		if got := x.PodCIDROverlaps(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
