package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// What MetalLB does with a configuration, as its documentation says it: an oracle, which knows nothing of inventories.
type (
	oracleNode struct{ name, rack, zone string }
	oraclePeer struct {
		name  string
		racks []string // of the Nodes that have a session with it; none: all
	}
	oraclePool struct {
		name     string
		pinned   bool
		priority int
	}
	oracleAdvertisement struct {
		name             string
		pools, peers     []string // none: all
		rack, tier       string   // of Nodes and Services; empty: all
		community, local int
	}
	oracle struct {
		nodes          []oracleNode
		peers          []oraclePeer
		pools          []oraclePool
		advertisements []oracleAdvertisement
	}
)

// drawOracle draws one in which each address of a peer, and each name, is there once.
func drawOracle(t *rapid.T) oracle {
	var o oracle
	racks := []string{"r1", "r2", "r3"}
	some := func(label string, from ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID).Draw(t, label)
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		rack := rapid.SampledFrom(racks).Draw(t, "rack")
		o.nodes = append(o.nodes, oracleNode{fmt.Sprintf("w%d", i), rack, rapid.SampledFrom([]string{"a", rack}).Draw(t, "zone")})
	}
	var peers, pools []string
	for i := range rapid.IntRange(0, 3).Draw(t, "peers") {
		peers = append(peers, fmt.Sprintf("tor%d", i))
		o.peers = append(o.peers, oraclePeer{peers[i], some("racks of a peer", racks...)})
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		p := oraclePool{name: fmt.Sprintf("pool%d", i), pinned: rapid.Bool().Draw(t, "pinned")}
		if p.pinned {
			p.priority = rapid.IntRange(0, 2).Draw(t, "priority")
		}
		pools, o.pools = append(pools, p.name), append(o.pools, p)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "advertisements") {
		a := oracleAdvertisement{name: fmt.Sprintf("adv%d", i), pools: some("pools", pools...), community: i + 1, local: rapid.SampledFrom([]int{100, 100, 200}).Draw(t, "local")}
		if len(peers) > 0 {
			a.peers = some("peers", peers...)
		}
		a.rack = rapid.SampledFrom(append([]string{"", ""}, racks...)).Draw(t, "rack of an advertisement")
		a.tier = rapid.SampledFrom([]string{"", "", "gold", "silver"}).Draw(t, "tier")
		o.advertisements = append(o.advertisements, a)
	}
	return o
}

// document writes it down as MetalLB has it.
func (o oracle) document() document.Document {
	var b strings.Builder
	for i, n := range o.nodes {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {rack: %s, topology.kubernetes.io/zone: %s}}, status: {addresses: [{type: InternalIP, address: 10.1.0.%d}]}}\n", n.name, n.rack, n.zone, i+11)
	}
	for i, p := range o.peers {
		fmt.Fprintf(&b, "---\n{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: %s}, spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.9.0.%d", p.name, i+1)
		if len(p.racks) > 0 {
			fmt.Fprintf(&b, ", nodeSelectors: [{matchExpressions: [{key: rack, operator: In, values: [%s]}]}]", strings.Join(p.racks, ", "))
		}
		b.WriteString("}}\n")
	}
	for i, p := range o.pools {
		fmt.Fprintf(&b, "---\n{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: %s}, spec: {addresses: [203.0.113.%d/28]", p.name, i*16)
		if p.pinned {
			fmt.Fprintf(&b, ", serviceAllocation: {priority: %d, namespaces: [team]}", p.priority)
		}
		b.WriteString("}}\n")
	}
	for _, a := range o.advertisements {
		fmt.Fprintf(&b, "---\n{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: %s}, spec: {ipAddressPools: [%s], peers: [%s], communities: ['65001:%d'], localPref: %d",
			a.name, strings.Join(a.pools, ", "), strings.Join(a.peers, ", "), a.community, a.local)
		if a.rack != "" {
			fmt.Fprintf(&b, ", nodeSelectors: [{matchLabels: {rack: %s}}]", a.rack)
		}
		if a.tier != "" {
			fmt.Fprintf(&b, ", serviceSelectors: [{matchLabels: {tier: %s}}]", a.tier)
		}
		b.WriteString("}}\n")
	}
	return document.Document{Source: "metallb", Data: []byte(b.String())}
}

// allOf reports whether a list of which an empty one means all has something.
func allOf(list []string, one string) bool { return len(list) == 0 || slices.Contains(list, one) }

// says is what a peer hears of a VIP of a pool and a Service's tier from a Node; empty: nothing.
func (o oracle) says(n oracleNode, p oraclePeer, pool, tier string) string {
	var communities []inventory.Community
	local := 0
	for _, a := range o.advertisements {
		if allOf(p.racks, n.rack) && allOf(a.pools, pool) && allOf(a.peers, p.name) && (a.rack == "" || a.rack == n.rack) && (a.tier == "" || a.tier == tier) {
			communities = append(communities, inventory.Community{Global: 65001, Local1: uint32(a.community)})
			local = max(local, a.local)
		}
	}
	if local == 0 {
		return ""
	}
	return fmt.Sprint(local, " ", inventory.CommunitiesOf(communities...))
}

// inventorySays is what the same peer hears under an inventory.
func inventorySays(inv *inventory.Inventory, machine, router, pool, tier string) string {
	rack := rackIn(inv, machine)
	if !slices.Contains(rack.Peers, router) {
		return ""
	}
	for _, p := range inv.Pools {
		if p.Name != pool {
			continue
		}
		for _, a := range p.Advertise {
			if a.Selector.Matches(map[string]string{"tier": tier}) && allOf(a.Racks, rack.Name) && allOf(a.Routers, router) {
				return fmt.Sprint(a.LocalPref, " ", a.Communities)
			}
		}
	}
	return ""
}

func rackIn(inv *inventory.Inventory, machine string) inventory.Rack {
	for _, r := range inv.Racks {
		if slices.ContainsFunc(r.Machines, func(m inventory.Machine) bool { return m.Name == machine }) {
			return r
		}
	}
	return inventory.Rack{}
}

// TestAnInventoryMeansWhatMetalLBMeant: who has a session with whom, what is said over it, and which pool comes first are as before, or
// a note says that something differs.
func TestAnInventoryMeansWhatMetalLBMeant(t *testing.T) {
	alike := 0
	rapid.Check(t, func(t *rapid.T) {
		o := drawOracle(t)
		text, notes := Import(Options{Sources: []string{"nodes", "metallb"}}, o.document())
		inv, problems := document.Parse(document.Document{Source: "out", Data: text})
		if problems.Err() != nil {
			t.Fatalf("%v\n%v\n%s", problems, notes, text)
		}
		for _, a := range o.pools {
			for _, b := range o.pools {
				first := cmp.Or(cmp.Compare(rank(a), rank(b)))
				if first < 0 && priorityOf(inv, a.name) >= priorityOf(inv, b.name) {
					t.Fatalf("MetalLB tries %s before %s:\n%s", a.name, b.name, text)
				}
			}
		}
		if len(notes) > 0 {
			return
		}
		alike++
		for _, n := range o.nodes {
			for _, p := range o.peers {
				if had, has := allOf(p.racks, n.rack), slices.Contains(rackIn(inv, n.name).Peers, p.name); had != has {
					t.Fatalf("%s had a session with %s: %v, and has: %v\n%s", n.name, p.name, had, has, text)
				}
				for _, pool := range o.pools {
					for _, tier := range []string{"gold", "silver", "none"} {
						if was, is := o.says(n, p, pool.name, tier), inventorySays(inv, n.name, p.name, pool.name, tier); was != is {
							t.Fatalf("%s heard of %s (tier %s) from %s: %q, and hears %q\n%s", p.name, pool.name, tier, n.name, was, is, text)
						}
					}
				}
			}
		}
	})
	if alike < 10 {
		t.Errorf("only %d configurations were carried over without a note", alike)
	}
}

// rank orders pools as MetalLB tries them: pinned ones first, by their priority, of which none is the last.
func rank(p oraclePool) int {
	switch {
	case !p.pinned:
		return 1000
	case p.priority == 0:
		return 999
	}
	return p.priority
}

func priorityOf(inv *inventory.Inventory, name string) int {
	for _, p := range inv.Pools {
		if p.Name == name {
			return p.Priority
		}
	}
	return -1
}
