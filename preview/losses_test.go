package preview

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
)

// lossLines are what is lost besides VIPs.
func lossLines(l edit.Losses) (out []string) {
	for _, n := range l.Nodes {
		out = append(out, n.String())
	}
	for _, p := range l.Pods {
		out = append(out, p.String())
	}
	for _, a := range l.Taken {
		out = append(out, a.String())
	}
	return out
}

// withBoards are Nodes whose kubelets report boards, and that have provider IDs of a scheme and their names.
func withBoards(scheme string, boards map[string]string) map[string]Node {
	out := map[string]Node{}
	for name, board := range boards {
		out[name] = Node{Identity: inventory.NodeIdentity{ProviderID: scheme + "://" + name, SystemUUID: inventory.ReportedUUID(board), Name: name}}
	}
	return out
}

func TestAnEditThatLeavesNodesWithoutAMachineIsALoss(t *testing.T) {
	const one, two, three = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003"
	matched := func(w1, w2 string) *inventory.Inventory {
		return edited(t, "name: w1,", "name: w1, match: {systemUUID: "+w1+"},", "name: w2,", "name: w2, match: {systemUUID: "+w2+"},")
	}
	boards := map[string]string{"w1": one, "w2": two, "w3": three}
	right, foreign := Cluster{Nodes: withBoards("plinth", boards)}, Cluster{Nodes: withBoards("k3s", boards)}
	for _, tt := range []struct {
		what          string
		before, after *inventory.Inventory
		cluster       Cluster
		want          []string
	}{
		{"two numbers swapped", matched(one, two), matched(two, one), foreign, []string{
			`node w1 is not machine w1 any more: node w1 (providerID "k3s://w1", systemUUID "` + one + `") could be any of the machines w1, w2`,
			`node w2 is not machine w2 any more: node w2 (providerID "k3s://w2", systemUUID "` + two + `") could be any of the machines w1, w2`,
		}},
		{"two numbers swapped, of Nodes with provider IDs of Plinth's", matched(one, two), matched(two, one), right, nil},
		{"two names swapped, and the ids written", matched(one, two), edited(t, "name: w1,", "name: x, id: w1, match: {systemUUID: "+one+"},", "name: w2,", "name: w1, id: w2, match: {systemUUID: "+two+"},", "name: x,", "name: w2,"), right, nil},
		{"two numbers put right", matched(two, one), matched(one, two), right, nil},
		{"a number that all boards of a rack have", edited(t), edited(t, "name: w2,", "name: w2, match: {systemUUID: "+one+"},"),
			Cluster{Nodes: withBoards("k3s", map[string]string{"w1": one, "w2": one, "w3": three})},
			[]string{`node w1 is not machine w1 any more: node w1 (providerID "k3s://w1", systemUUID "` + one + `") could be any of the machines w1, w2`}},
		{"such a number, of Nodes with provider IDs of Plinth's", edited(t), edited(t, "name: w2,", "name: w2, match: {systemUUID: "+one+"},"),
			Cluster{Nodes: withBoards("plinth", map[string]string{"w1": one, "w2": one, "w3": three})}, nil},
		{"a board that was swapped", matched(one, two), matched(three, two), Cluster{Nodes: withBoards("plinth", map[string]string{"w1": one, "w2": two})}, nil},
		{"another machine in its place, which counts as removed", matched(one, two), edited(t, "name: w1,", "name: w1, id: other, match: {systemUUID: 00000000-0000-0000-0000-000000000009},"), right, nil},
		{"nothing", matched(one, two), matched(one, two), right, nil},
	} {
		if got := lossLines(Losses(tt.before, tt.after, tt.cluster)); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.what, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// withPodCIDRs are Nodes with the pod CIDRs that an inventory gives their machines.
func withPodCIDRs(inv *inventory.Inventory) Cluster {
	c := Cluster{Nodes: map[string]Node{}}
	for m := range inv.Machines() {
		c.Nodes[m.Name] = Node{PodCIDRs: m.PodCIDRs}
	}
	return c
}

func TestAnEditThatKeepsPodsFromEachOtherIsALoss(t *testing.T) {
	fabric := withPods(t, "fabric")
	const gone = ": podNetwork is gone, and with it the routes that Plinth keeps"
	for _, tt := range []struct {
		what          string
		before, after *inventory.Inventory
		want          string
	}{
		{"podNetwork goes", fabric, edited(t), "pods of rack r1 do not reach those of rack r1 any more, of 2 pairs of machines" + gone +
			"; pods of rack r1 do not reach those of rack r2 any more, of 2 pairs of machines" + gone + "; pods of rack r2 do not reach those of rack r1 any more, of 2 pairs of machines" + gone},
		{"podNetwork comes", edited(t), fabric, ""},
		{"a mode that does not reach other subnets", fabric, withPods(t, "direct"), "pods of rack r1 do not reach those of rack r2 any more, of 2 pairs of machines: IPv4: NodeOfOtherSubnet; " +
			"pods of rack r2 do not reach those of rack r1 any more, of 2 pairs of machines: IPv4: NodeOfOtherSubnet"},
		{"the router of a rack goes", fabric, withPods(t, "fabric", "    routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]\n", ""), "pods of rack r1 do not reach those of rack r2 any more, of 2 pairs of machines: IPv4: NoSession; " +
			"pods of rack r2 do not reach those of rack r1 any more, of 2 pairs of machines: IPv4: NoGateway"},
		{"one that does", fabric, withPods(t, "overlay"), ""},
		{"of what is cut off already nothing is lost", withPods(t, "direct"), withPods(t, "direct", "10.1.0.11]", "10.1.0.11], reason: disks"), ""},
		{"a machine that is off has no pods", fabric, withPods(t, "fabric", "10.2.0.13]", "10.2.0.13], state: off"), ""},
		{"a machine in maintenance is to be out of reach", fabric, withPods(t, "fabric", "10.2.0.13]", "10.2.0.13], state: maintenance"), ""},
		{"what is lost besides counts", fabric, withPods(t, "direct", "10.1.0.11]", "10.1.0.11], state: maintenance"), "pods of rack r1 do not reach those of rack r2 any more, of 1 pairs of machines: IPv4: NodeOfOtherSubnet; " +
			"pods of rack r2 do not reach those of rack r1 any more, of 1 pairs of machines: IPv4: NodeOfOtherSubnet"},
		{"a rack under another name", fabric, withPods(t, "fabric", "name: r2", "name: r9", "racks: [r2]", "racks: [r9]"), ""},
	} {
		c := withPodCIDRs(tt.before)
		c.Nodes["joins"] = Node{Identity: inventory.NodeIdentity{ProviderID: "plinth://w1"}} // and has no pods yet
		if got := strings.Join(lossLines(Losses(tt.before, tt.after, c)), "; "); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.what, got, tt.want)
		}
	}
}

func TestPodsOfAMachineInMaintenanceAreToldOfAndNotLost(t *testing.T) {
	fabric := withPods(t, "fabric")
	l := Losses(fabric, withPods(t, "fabric", "10.2.0.13]", "10.2.0.13], state: maintenance"), withPodCIDRs(fabric))
	if len(l.Resting) != 1 || l.Resting[0].String() != "pods of rack r1 do not reach those of rack r2 any more, of 2 pairs of machines: IPv4: MachineNotActive" {
		t.Errorf("resting: %v", l.Resting)
	}
	if problems, _ := l.Refuse(fabric, edit.Allowance{}); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestAPoolThatTakesAddressesOfTheClusterIsALoss(t *testing.T) {
	c := Cluster{Taken: []lb.Taken{
		{Prefix: netip.MustParsePrefix("10.244.16.0/24"), Who: "the pods of node w3"}, {Prefix: netip.MustParsePrefix("10.244.16.2/32"), Who: "an endpoint of service default/web on node w3"},
		{Prefix: netip.MustParsePrefix("10.96.0.1/32"), Who: "service default/kubernetes inside the cluster"}, {Prefix: netip.MustParsePrefix("fd00::1/128"), Who: "node w1"},
	}}
	const pool = "198.51.100.0/28"
	for addresses, want := range map[string]string{
		pool + ", 10.244.16.0/26":          "pool inner takes 10.244.16.0/24 of the pods of node w3",
		pool + ", 10.96.0.0/24, fd00::/64": "pool inner takes 10.96.0.1/32 of service default/kubernetes inside the cluster; pool inner takes fd00::1/128 of node w1",
		pool + ", 10.245.0.0/16":           "",
		"198.51.100.0/29":                  "",
	} {
		if got := strings.Join(lossLines(Losses(edited(t), edited(t, pool, addresses), c)), "; "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", addresses, got, want)
		}
	}
	had := edited(t, pool, pool+", 10.244.16.0/26")
	if got := lossLines(Losses(had, had, c)); len(got) > 0 {
		t.Errorf("it has them already: %v", got)
	}
}

// Who has an address that kube-proxy rewrites loses nothing to a pool, so no edit is refused for it; no VIP is given from there all the same. An
// externalIP may be a VIP of its own Service.
func TestWhatNoVIPIsGivenFromIsKnownOfEveryPool(t *testing.T) {
	const pool = "198.51.100.0/28"
	external := func(a, name string) lb.Taken {
		return lb.Taken{Prefix: netip.MustParsePrefix(a), Who: "the externalIPs of service default/" + name, Service: lb.ServiceKey{Namespace: "default", Name: name}, Proxied: true}
	}
	c := Cluster{Taken: []lb.Taken{
		{Prefix: netip.MustParsePrefix("10.96.0.0/24"), Who: "ServiceCIDR kubernetes", Proxied: true}, {Prefix: netip.MustParsePrefix("10.244.16.0/24"), Who: "the pods of node w3"},
		{Prefix: netip.MustParsePrefix("10.244.16.2/32"), Who: "an endpoint of service default/web on node w3"}, {Prefix: netip.MustParsePrefix("10.97.0.1/32"), Who: "node stranger"},
		external("10.244.20.1/32", "web"), external("10.244.20.1/32", "other"), external("10.244.20.2/32", "web"),
	}, Services: []Service{{Key: lb.ServiceKey{Namespace: "default", Name: "web"}, VIPs: []netip.Addr{netip.MustParseAddr("10.244.20.1")}}}}
	after := edited(t, pool, pool+", 10.244.16.0/21, 10.96.0.128/25")
	var got []string
	for _, a := range TakenIn(after, c) {
		got = append(got, a.String())
	}
	want := []string{"pool inner takes 10.96.0.0/24 of ServiceCIDR kubernetes", "pool inner takes 10.244.16.0/24 of the pods of node w3",
		"pool inner takes 10.244.20.1/32 of the externalIPs of service default/other", "pool inner takes 10.244.20.2/32 of the externalIPs of service default/web"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := strings.Join(lossLines(Losses(edited(t), after, c)), "; "), "pool inner takes 10.244.16.0/24 of the pods of node w3"; got != want {
		t.Errorf("an edit loses\ngot  %s\nwant %s", got, want)
	}
}
