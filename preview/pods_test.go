package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// fataler is what a test and a property have in common.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// withPods is the datacenter with a pod network of some mode.
func withPods(t fataler, mode string, edits ...string) *inventory.Inventory {
	t.Helper()
	inv := edited(t, append([]string{"  bgp: {asn: 65010}\n", "  bgp: {asn: 65010}\n  podNetwork: {mode: " + mode + ", cidrs: [10.244.0.0/16]}\n"}, edits...)...)
	carved, problems := inventory.Carve(inv, nil)
	if carved == nil {
		t.Fatal(problems)
	}
	return carved
}

func pathLines(paths []PodPath) (out []string) {
	for _, p := range paths {
		for _, w := range p.Ways {
			out = append(out, fmt.Sprintf("%s-%s %s x%d", p.From, p.To, w, w.Pairs))
		}
	}
	return out
}

func TestTheWayOfPodsBetweenRacks(t *testing.T) {
	everybody := Cluster{}
	routers := func(names ...string) Failures {
		f := Failures{Routers: map[string]bool{}}
		for _, n := range names {
			f.Routers[n] = true
		}
		return f
	}
	for _, tt := range []struct {
		what    string
		inv     *inventory.Inventory
		cluster Cluster
		failed  Failures
		want    string
	}{
		{"a CNI routes them", edited(t), everybody, Failures{}, ""},
		{"through the routers", withPods(t, "fabric"), everybody, Failures{},
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 fabric by tor-r1 and tor-r2 x2; r2-r1 IPv4 fabric by tor-r2 and tor-r1 x2"},
		{"through the tunnel", withPods(t, "overlay"), everybody, Failures{}, "r1-r1 IPv4 direct x2; r1-r2 IPv4 overlay x2; r2-r1 IPv4 overlay x2"},
		{"only within a subnet", withPods(t, "direct"), everybody, Failures{},
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 unreachable (NodeOfOtherSubnet) x2; r2-r1 IPv4 unreachable (NodeOfOtherSubnet) x2"},
		{"one subnet of two racks", withPods(t, "direct", "- name: r1\n", "- name: r1\n    subnets: [10.0.0.0/14]\n", "- name: r2\n", "- name: r2\n    subnets: [10.0.0.0/14]\n"), everybody, Failures{},
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 direct x2; r2-r1 IPv4 direct x2"},
		{"without the router of a rack", withPods(t, "fabric"), everybody, routers("tor-r2"),
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 unreachable (RouterFailed) x2; r2-r1 IPv4 unreachable (RouterFailed) x2"},
		{"the tunnel needs the router of its rack, too", withPods(t, "overlay"), everybody, routers("tor-r2"),
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 unreachable (RouterFailed) x2; r2-r1 IPv4 unreachable (RouterFailed) x2"},
		{"by the router that is left", withPods(t, "fabric", "routers: [{name: tor-r2,", "routers: [{name: second, address: 10.2.0.2, asn: 65102}, {name: tor-r2,"), everybody, routers("tor-r2"),
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 fabric by tor-r1 and second x2; r2-r1 IPv4 fabric by second and tor-r1 x2"},
		{"without a machine", withPods(t, "fabric"), everybody, Failures{Machines: map[string]bool{"w1": true}},
			"r1-r2 IPv4 fabric by tor-r1 and tor-r2 x1; r2-r1 IPv4 fabric by tor-r2 and tor-r1 x1"},
		{"a machine in maintenance tells no router", withPods(t, "fabric", "10.1.0.11]", "10.1.0.11], state: maintenance"), everybody, Failures{},
			"r1-r1 IPv4 direct x2; r1-r2 IPv4 fabric by tor-r1 and tor-r2 x2; r2-r1 IPv4 fabric by tor-r2 and tor-r1 x1; r2-r1 IPv4 unreachable (MachineNotActive) x1"},
		{"a machine that is off has no pods", withPods(t, "fabric", "10.2.0.13]", "10.2.0.13], state: off"), everybody, Failures{}, "r1-r1 IPv4 direct x2"},
		{"a machine without a Node has none", withPods(t, "fabric"), Cluster{Nodes: nodes("w1", "w3")}, Failures{},
			"r1-r2 IPv4 fabric by tor-r1 and tor-r2 x1; r2-r1 IPv4 fabric by tor-r2 and tor-r1 x1"},
	} {
		if got := strings.Join(pathLines(Of(tt.inv, tt.cluster, tt.failed).PodPaths()), "; "); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.what, got, tt.want)
		}
	}
}

// drawn is a datacenter of up to three racks whose machines, subnets, routers and states differ.
func drawn(t *rapid.T) (*inventory.Inventory, Failures) {
	var b strings.Builder
	failed := Failures{map[string]bool{}, map[string]bool{}}
	mode := rapid.SampledFrom([]string{"direct", "fabric", "overlay"}).Draw(t, "mode")
	shared := rapid.Bool().Draw(t, "shared")
	fmt.Fprintf(&b, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  podNetwork: {mode: %s, cidrs: [10.244.0.0/16, \"fd00:244::/48\"]}\n  racks:\n", mode)
	for r := range rapid.IntRange(1, 3).Draw(t, "racks") {
		subnets := "[10.0.0.0/14]"
		if !shared {
			subnets = rapid.SampledFrom([]string{"[]", fmt.Sprintf("[10.%d.0.0/25, 10.%d.0.128/25]", r, r), fmt.Sprintf("[10.%d.0.0/24, \"fd00:%d::/64\"]", r, r)}).Draw(t, "subnets")
		}
		fmt.Fprintf(&b, "  - name: r%d\n    subnets: %s\n    routers:\n", r, subnets)
		for k := range 2 {
			name := fmt.Sprintf("tor%d%d", r, k)
			fmt.Fprintf(&b, "    - {name: %s, %s, asn: 65101}\n", name, rapid.SampledFrom([]string{
				fmt.Sprintf("address: 10.%d.0.%d", r, k+1), fmt.Sprintf("address: 10.%d.0.%d, multihop: 3", r, k+1), fmt.Sprintf("addresses: [10.%d.0.%d, \"fd00:%d::%d\"]", r, k+1, r, k+1),
			}).Draw(t, "router"))
			failed.Routers[name] = rapid.Float64().Draw(t, "dead") > 0.7
		}
		b.WriteString("    machines:\n")
		for m := range rapid.IntRange(1, 5).Draw(t, "machines") {
			at := 10 + m + 150*rapid.IntRange(0, 1).Draw(t, "far")
			name := fmt.Sprintf("w%d%d", r, m)
			fmt.Fprintf(&b, "    - {name: %s, addresses: %s, state: %s}\n", name, rapid.SampledFrom([]string{
				fmt.Sprintf("[10.%d.0.%d]", r, at), fmt.Sprintf("[10.%d.0.%d, \"fd00:%d::%d\"]", r, at, r, at), fmt.Sprintf("[\"fd00:%d::%d\", 10.%d.0.%d]", r, at, r, at),
			}).Draw(t, "addresses"), rapid.SampledFrom([]string{"active", "active", "maintenance", "off"}).Draw(t, "state"))
			failed.Machines[name] = rapid.Float64().Draw(t, "dead") > 0.8
		}
	}
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(b.String())})
	if inv == nil {
		t.Fatal(problems, b.String())
	}
	if inv, problems = inventory.Carve(inv, nil); inv == nil {
		t.Fatal(problems)
	}
	return inv, failed
}

// TestMachinesThatArePutTogetherHaveTheSameWays holds the ways of groups against those of each
// machine by itself, which plans with all others.
func TestMachinesThatArePutTogetherHaveTheSameWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, failed := drawn(t)
		c := Cluster{Nodes: map[string]Node{}}
		for m := range inv.Machines() {
			n := Node{PodCIDRs: m.PodCIDRs}
			switch rapid.IntRange(0, 20).Draw(t, "cidrs") {
			case 0:
				n.PodCIDRs = inv.Racks[0].Machines[0].PodCIDRs // another one's
			case 1:
				n.PodCIDRs = m.PodCIDRs[:1]
			}
			c.Nodes[m.Name] = n
		}
		p := Of(inv, c, failed)
		var alone []podGroup
		for _, m := range p.podMachines() {
			alone = append(alone, podGroup{rack: m.machine.Rack, first: m, count: 1})
		}
		if d := cmp.Diff(pathLines(p.pathsOf(alone)), pathLines(p.PodPaths())); d != "" {
			t.Fatalf("-each by itself +in groups:\n%s", d)
		}
	})
}

func TestWhatDiffers(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{
		service("web", "203.0.113.7", false, "w1", "w3"),
		service("single", "203.0.113.8", false, "w2"),
		service("inner", "198.51.100.1", false, "w1"),
		service("local", "203.0.113.9", true, "w1", "w2"),
		service("none", "203.0.113.10", false),
	}}
	inv := withPods(t, "fabric")
	for _, tt := range []struct {
		what   string
		after  *inventory.Inventory
		failed Failures
		lost   string
		pods   string
	}{
		{"nothing", inv, Failures{}, "", ""},
		{"a machine with the only endpoint", inv, Failures{Machines: map[string]bool{"w2": true}}, "203.0.113.8: its Service has no endpoint", ""},
		{"a router", inv, Failures{Routers: map[string]bool{"tor-r2": true}}, "198.51.100.1: every router that it is announced to has failed", "r1-r2 r2-r1"},
		{"a rack", inv, FailureOfRack(inv, "r1"), "198.51.100.1: its Service has no endpoint; 203.0.113.8: its Service has no endpoint; 203.0.113.9: every machine that announces it has failed", "r1"},
		{"an edit", withPods(t, "fabric", "[203.0.113.0/25]", "[203.0.113.0/29]"), Failures{}, "203.0.113.8: no pool has it; 203.0.113.9: no pool has it", ""},
	} {
		o := Compare(Simulate(inv, tt.after, c, tt.failed))
		var lost, pods []string
		for _, l := range o.Lost() {
			lost = append(lost, l.Is.Addr.String()+": "+l.Why)
		}
		for _, p := range o.Pods {
			if p.Lost() {
				pods = append(pods, p.From+"-"+p.To)
			}
		}
		pods = append(pods, o.Racks...)
		if got := strings.Join(lost, "; "); got != tt.lost || strings.Join(pods, " ") != tt.pods {
			t.Errorf("%s:\ngot  %s; pods %s\nwant %s; pods %s", tt.what, got, pods, tt.lost, tt.pods)
		}
		if o.Loses() != (tt.lost+tt.pods != "") {
			t.Errorf("%s: it loses something is %v", tt.what, o.Loses())
		}
	}
}

func TestNextHopsShiftPerRouterForVIPsThatChangeAlike(t *testing.T) {
	before := edited(t)
	after := edited(t, "  - {name: inner, addresses: [198.51.100.0/28], advertise: {racks: [r2]}}\n", "", "[203.0.113.0/25]", "[203.0.113.0/25, 198.51.100.0/28], advertise: {racks: [r1]}")
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{
		service("a", "203.0.113.7", false, "w1"), service("b", "203.0.113.8", false, "w1"), service("inner", "198.51.100.1", false, "w1"),
	}}
	var got []string
	for _, h := range Compare(Simulate(before, after, c, Failures{})).Hops() {
		got = append(got, fmt.Sprintf("%s %v: %v -> %v", h.Router, h.VIPs, h.Was, h.Is))
	}
	want := []string{
		"tor-r1 [198.51.100.1]:  -> w1, w2",
		"tor-r2 [198.51.100.1 203.0.113.7 203.0.113.8]: w3 -> ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// An edit that says what is in force loses nothing, and a failure is as if the machine were off:
// the same others announce, and the same pods are reached.
func TestAFailureIsAsAnInventoryWithoutTheMachine(t *testing.T) {
	inv := withPods(t, "fabric")
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		if o := Compare(Simulate(inv, withPodsAgain(inv), c, Failures{})); !o.Empty() {
			t.Fatalf("the same inventory differs: %+v", o)
		}
		dead := rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(t, "dead")
		_, failed := Simulate(inv, inv, c, Failures{Machines: map[string]bool{dead: true}})
		gone := c
		gone.Nodes = map[string]Node{}
		for name, n := range c.Nodes {
			if name != dead {
				gone.Nodes[name] = n
			}
		}
		gone.Services = c.Services
		if _, there := c.Nodes[dead]; there {
			gone.Services = c.without(map[string]bool{dead: true})
		}
		off := Of(withPods(t, "fabric", addressOf[dead]+"]", addressOf[dead]+"], state: off"), Cluster{Nodes: c.Nodes, Services: gone.Services}, Failures{})
		for i, vip := range failed.VIPs {
			if !slices.Equal(vip.By, off.VIPs[i].By) {
				t.Fatalf("%v is announced by %v, and with %s off by %v", vip.Addr, vip.By, dead, off.VIPs[i].By)
			}
		}
		without := Of(inv, gone, Failures{})
		for i, vip := range failed.VIPs {
			if !slices.Equal(vip.By, without.VIPs[i].By) {
				t.Fatalf("%v is announced by %v, and without %s by %v", vip.Addr, vip.By, dead, without.VIPs[i].By)
			}
		}
		if d := cmp.Diff(pathLines(without.PodPaths()), pathLines(failed.PodPaths())); d != "" {
			t.Fatal(d)
		}
	})
}

var addressOf = map[string]string{"w1": "10.1.0.11", "w2": "10.1.0.12", "w3": "10.2.0.13"}

// withPodsAgain is the same inventory, written and read.
func withPodsAgain(inv *inventory.Inventory) *inventory.Inventory {
	again, problems := document.ParseAccepted(document.Document{Source: "again.yaml", Data: document.FormatAccepted(inv)})
	if again == nil {
		panic(problems)
	}
	return again
}

// The paths of pods that a preview with more failures has are those of one that had them at once.
func TestFailuresOneAfterTheOtherAreAsAllAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, failed := drawn(t)
		c := drawCluster(t)
		if rapid.Bool().Draw(t, "known") {
			c.Nodes = map[string]Node{}
			for m := range inv.Machines() {
				c.Nodes[m.Name] = Node{PodCIDRs: m.PodCIDRs}
			}
		} else {
			c.Nodes = nil
		}
		first := Failures{Machines: failed.Machines}
		steps := Of(inv, c, first).With(Failures{Routers: failed.Routers})
		once := Of(inv, c, failed)
		if d := cmp.Diff(once.VIPs, steps.VIPs, cmp.Comparer(func(a, b VIP) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(pathLines(once.PodPaths()), pathLines(steps.PodPaths())); d != "" {
			t.Fatal(d)
		}
	})
}
