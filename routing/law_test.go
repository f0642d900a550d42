package routing

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// apply does to a table what the kernel would.
func (d Difference) apply(have []Route) []Route {
	byKey := map[Key]Route{}
	for _, r := range have {
		byKey[r.Key()] = r
	}
	for _, r := range slices.Concat(d.Add, d.Replace) {
		byKey[r.Key()] = r
	}
	for _, r := range d.Delete {
		delete(byKey, r.Key())
	}
	var out []Route
	for _, r := range byKey {
		out = append(out, r)
	}
	slices.SortFunc(out, Route.Compare)
	return out
}

func genRoutes() *rapid.Generator[[]Route] {
	one := rapid.Custom(func(t *rapid.T) Route {
		b := rapid.ByteRange(0, 5)
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, b.Draw(t, "dst")}), 16)
		if rapid.Bool().Draw(t, "unreachable") {
			return Route{Dst: dst, Kind: Unreachable}
		}
		return Route{Dst: dst, Via: Via(netip.AddrFrom4([4]byte{192, 0, 2, b.Draw(t, "via")}), netip.AddrFrom4([4]byte{192, 0, 2, b.Draw(t, "via")}))}
	})
	return rapid.Map(rapid.SliceOfDistinct(one, Route.Key), func(rs []Route) []Route {
		slices.SortFunc(rs, Route.Compare)
		return rs
	})
}

func TestDiffAppliedToHaveGivesWant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := genRoutes().Draw(t, "have"), genRoutes().Draw(t, "want")
		if got := Diff(have, want).apply(have); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestDiffOfTheSameIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if rs := genRoutes().Draw(t, "routes"); !Diff(rs, rs).Empty() {
			t.Fatal("not empty")
		}
	})
}

// fleet is a datacenter: racks of a subnet and a router each, nodes in them.
type fleet struct {
	mode    inventory.Mode
	cluster []netip.Prefix
	nodes   []Node
	subnets map[string][]netip.Prefix
	routers map[string][]netip.Addr
}

func genFleet(mode inventory.Mode) *rapid.Generator[fleet] {
	return rapid.Custom(func(t *rapid.T) fleet {
		f := fleet{mode: mode, cluster: prefixes("10.244.0.0/16", "fd00:244::/48"), subnets: map[string][]netip.Prefix{}, routers: map[string][]netip.Addr{}}
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		if mode == inventory.ModeDirect {
			racks = 1
		}
		blocks := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Perm(256)
		for r := range racks {
			name := fmt.Sprintf("r%d", r)
			f.subnets[name] = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r), 0, 0}), 24), netip.PrefixFrom(v6(0xfd01, r, 0), 64)}
			f.routers[name] = []netip.Addr{netip.AddrFrom4([4]byte{10, byte(r), 0, 1}), v6(0xfd01, r, 1)}
			for m := range rapid.IntRange(1, 5).Draw(t, "machines") {
				block := blocks[len(f.nodes)]
				f.nodes = append(f.nodes, Node{
					Name: fmt.Sprintf("%s-m%d", name, m), Rack: name,
					Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(r), 0, byte(10 + m)}), v6(0xfd01, r, 10+m)},
					PodCIDRs:  []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(block), 0}), 24), netip.PrefixFrom(pod6(block, 0), 64)},
				})
			}
		}
		return f
	})
}

func v6(top, rack, host int) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint16(b[:], uint16(top))
	b[7], b[15] = byte(rack), byte(host)
	return netip.AddrFrom16(b)
}

func pod6(block, host int) netip.Addr {
	b := netip.MustParseAddr("fd00:244::").As16()
	b[7], b[15] = byte(block), byte(host)
	return netip.AddrFrom16(b)
}

func (f fleet) view(n Node) View {
	v := View{Mode: f.mode, Cluster: f.cluster, Self: n, Subnets: f.subnets[n.Rack], Gateways: f.routers[n.Rack]}
	for _, o := range f.nodes {
		if o.Rack == n.Rack || f.mode == inventory.ModeOverlay {
			v.Nodes = append(v.Nodes, &o)
		}
	}
	return v
}

// deliver walks a packet from a node to a pod address and returns the node that
// it ends on, or why it does not arrive. Routers know each node's pod CIDRs from
// the node, and discard the rest.
func (f fleet) deliver(tables map[string]Table, from string, dst netip.Addr) string {
	at := from
	for range 8 {
		node := f.nodes[slices.IndexFunc(f.nodes, func(n Node) bool { return n.Name == at })]
		if slices.ContainsFunc(node.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(dst) }) {
			return at
		}
		r, ok := lookup(tables[at].Routes, dst)
		switch {
		case !ok || r.Kind != Unicast:
			return "unreachable at " + at
		case r.Tunnel:
			peers := tables[at].Tunnel.Peers
			p := peers[slices.IndexFunc(peers, func(p Peer) bool { return p.NextHop() == r.Via.First() })]
			at = f.at(p.Outer)
		case f.at(r.Via.First()) != "":
			at = f.at(r.Via.First())
		default:
			owner := slices.IndexFunc(f.nodes, func(n Node) bool { return within(n.PodCIDRs, netip.PrefixFrom(dst, dst.BitLen())) })
			if owner < 0 {
				return "discarded by a router"
			}
			at = f.nodes[owner].Name
		}
	}
	return "looped"
}

func (f fleet) at(a netip.Addr) string {
	for _, n := range f.nodes {
		if slices.Contains(n.Addresses, a) {
			return n.Name
		}
	}
	return ""
}

// lookup is the kernel's: the longest prefix, and of equal ones unicast first.
func lookup(routes []Route, dst netip.Addr) (best Route, ok bool) {
	for _, r := range routes {
		better := r.Dst.Bits() > best.Dst.Bits() || r.Dst.Bits() == best.Dst.Bits() && r.Kind < best.Kind
		if r.Dst.Contains(dst) && r.Kind != UnreachableForwarded && (!ok || better) {
			best, ok = r, true
		}
	}
	return best, ok
}

func TestEveryPodReachesEveryPod(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		t.Run(string(mode), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := genFleet(mode).Draw(t, "fleet")
				tables := map[string]Table{}
				for _, n := range f.nodes {
					tables[n.Name] = Plan(f.view(n))
				}
				f.checkAll(t, tables)
			})
		})
	}
}

func (f fleet) checkAll(t *rapid.T, tables map[string]Table) {
	for _, from := range f.nodes {
		for _, to := range f.nodes {
			for _, c := range to.PodCIDRs {
				if got := f.deliver(tables, from.Name, c.Addr().Next()); got != to.Name {
					t.Fatalf("from %s to a pod of %s: %s", from.Name, to.Name, got)
				}
			}
		}
		for block := range 256 {
			for _, dst := range []netip.Addr{netip.AddrFrom4([4]byte{10, 244, byte(block), 9}), pod6(block, 9)} {
				if got := f.deliver(tables, from.Name, dst); got == "looped" {
					t.Fatalf("from %s to %v: looped", from.Name, dst)
				}
			}
		}
	}
}

// churn changes a list of Nodes in one place: a Node comes, goes, or is another one,
// with CIDRs that may be anybody's, wider, narrower or outside of the pod network.
func churn(t *rapid.T, nodes []*Node) []*Node {
	n := &Node{Name: fmt.Sprintf("n%02d", rapid.IntRange(0, 12).Draw(t, "name")), Rack: "r0", Created: time.Unix(rapid.Int64Range(0, 3).Draw(t, "created"), 0)}
	if rapid.Bool().Draw(t, "near") {
		n.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(20 + len(nodes))})}
	} else {
		n.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 0, byte(20 + len(nodes))}), v6(0xfd01, 9, len(nodes))}
	}
	for range rapid.IntRange(0, 3).Draw(t, "CIDRs") {
		a := netip.AddrFrom4([4]byte{10, 244 + byte(rapid.IntRange(0, 9).Draw(t, "outside")/9), byte(rapid.IntRange(0, 15).Draw(t, "block")), 0})
		n.PodCIDRs = append(n.PodCIDRs, netip.PrefixFrom(a, rapid.SampledFrom([]int{16, 20, 22, 24, 24, 24}).Draw(t, "bits")).Masked())
	}
	i, there := slices.BinarySearchFunc(nodes, n.Name, func(n *Node, name string) int { return strings.Compare(n.Name, name) })
	switch nodes = slices.Clone(nodes); {
	case !there:
		return slices.Insert(nodes, i, n)
	case rapid.Bool().Draw(t, "goes"):
		return slices.Delete(nodes, i, i+1)
	}
	nodes[i] = n
	return nodes
}

func TestAPlannerThatRemembersPlansWhatOneThatDoesNotWould(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeNone, inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		t.Run(string(mode), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := genFleet(mode).Draw(t, "fleet")
				v := f.view(f.nodes[0])
				v.Self.Created = time.Unix(1, 0)
				v.Pools = rapid.SliceOfN(genPool(), 0, 3).Draw(t, "pools")
				slices.SortFunc(v.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
				var p Planner
				for range rapid.IntRange(1, 30).Draw(t, "changes") {
					v.Nodes = churn(t, v.Nodes)
					if rapid.IntRange(0, 4).Draw(t, "labels") == 0 {
						v.Taken = rapid.SliceOfN(genPool(), 0, 2).Draw(t, "taken")
					}
					got, want := p.Plan(v), Plan(v)
					if !slices.Equal(got.Routes, want.Routes) || !got.Tunnel.Equal(want.Tunnel) || !slices.Equal(got.Refusals, want.Refusals) || !slices.Equal(got.Coarse, want.Coarse) {
						t.Fatalf("remembering: %v\nnot: %v", got, want)
					}
				}
			})
		})
	}
}

func TestPlanHoldsEachKeyOnceAndSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFleet(inventory.ModeFabric).Draw(t, "fleet")
		for i := range f.nodes { // conflicts on purpose
			f.nodes[i].PodCIDRs = append(f.nodes[i].PodCIDRs, f.nodes[rapid.IntRange(0, len(f.nodes)-1).Draw(t, "thief")].PodCIDRs...)
		}
		routes := Plan(f.view(f.nodes[0])).Routes
		for i := 1; i < len(routes); i++ {
			if routes[i-1].Compare(routes[i]) >= 0 {
				t.Fatalf("%v before %v", routes[i-1], routes[i])
			}
		}
	})
}

// genPool draws a block of a pool that may have addresses of pods, of Nodes, or of neither.
func genPool() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		switch rapid.IntRange(0, 3).Draw(t, "pool of") {
		case 0:
			return netip.MustParsePrefix("203.0.113.0/25")
		case 1:
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 63).Draw(t, "host"))}), rapid.IntRange(26, 32).Draw(t, "bits")).Masked()
		case 2:
			return netip.PrefixFrom(pod6(rapid.IntRange(0, 255).Draw(t, "block"), 0), rapid.IntRange(57, 80).Draw(t, "bits")).Masked()
		}
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245 - byte(rapid.IntRange(0, 9).Draw(t, "pods")/9), byte(rapid.IntRange(0, 15).Draw(t, "block")), 0}), rapid.IntRange(18, 28).Draw(t, "bits")).Masked()
	})
}

// Forwarded packets meet the routes that answer for pools before all others. Whatever pools there are, none of these routes is over a
// pod or a Node that is known; and what else pools have is answered for, once.
func TestNoRouteOfAPoolIsOverPodsOrNodesThatAreKnown(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeNone, inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		t.Run(string(mode), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := genFleet(mode).Draw(t, "fleet")
				f.cluster = nil // with one, no inventory has a pool that overlaps it
				v := f.view(f.nodes[0])
				v.Pools = rapid.SliceOfN(genPool(), 1, 3).Draw(t, "pools")
				v.Declared = map[string][]netip.Prefix{"later": prefixes("10.245.3.0/24")}
				v.Taken = rapid.SliceOfN(genPool(), 0, 3).Draw(t, "taken")
				known := slices.Concat(hasOf(&v.Self), v.Declared["later"], v.Taken)
				for _, n := range v.Nodes {
					known = append(known, hasOf(n)...)
				}
				over := slices.DeleteFunc(slices.Clone(Plan(v).Routes), func(r Route) bool { return r.Kind != UnreachableForwarded })
				for _, r := range over {
					if i := slices.IndexFunc(known, r.Dst.Overlaps); i >= 0 {
						t.Fatalf("%v is over %v, of pools %v", r, known[i], v.Pools)
					}
				}
				for _, p := range v.Pools {
					a := drawWithin(t, p)
					isKnown := slices.ContainsFunc(known, func(k netip.Prefix) bool { return k.Contains(a) })
					answered := 0
					for _, r := range over {
						if r.Dst.Contains(a) {
							answered++
						}
					}
					if isKnown != (answered == 0) {
						t.Fatalf("%v of pool %v, known: %v, is answered for by %d routes of %v", a, p, isKnown, answered, over)
					}
				}
			})
		})
	}
}

// A pool over the LAN of many Nodes is answered for by a bounded number of routes; none of these is over a Node all the same, and what is
// left out besides Nodes is around them.
func TestAPoolOverManyNodesIsAnsweredForByFewRoutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := rapid.SampledFrom(prefixes("10.0.0.0/16", "fd01::/64", "fd01::/120", "10.0.0.0/30")).Draw(t, "pool")
		v := View{Pools: []netip.Prefix{pool, netip.MustParsePrefix("203.0.113.0/25")}, Taken: prefixes("198.51.100.0/24")}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		host := func() netip.Addr {
			b := pool.Addr().AsSlice()
			for bit := pool.Bits(); bit < len(b)*8; bit++ {
				b[bit/8] |= byte(random.IntN(2)) << (7 - bit%8)
			}
			a, _ := netip.AddrFromSlice(b)
			return a
		}
		for range rapid.IntRange(0, 2000).Draw(t, "nodes") {
			a := host()
			v.Taken = append(v.Taken, netip.PrefixFrom(a, a.BitLen()))
		}
		table := Plan(v)
		over := slices.DeleteFunc(slices.Clone(table.Routes), func(r Route) bool { return !r.Dst.Overlaps(pool) })
		if len(over) > mostAnswers {
			t.Fatalf("%d routes over %v", len(over), pool)
		}
		has := func(a netip.Addr) bool {
			return slices.ContainsFunc(over, func(r Route) bool { return r.Dst.Contains(a) })
		}
		taken := map[netip.Addr]bool{}
		for _, p := range v.Taken {
			if taken[p.Addr()] = true; has(p.Addr()) {
				t.Fatalf("a route is over %v", p)
			}
		}
		exact := !slices.Contains(table.Coarse, pool)
		for range 50 {
			if a := host(); exact && !taken[a] && !has(a) {
				t.Fatalf("no route is over %v of %v, which %d Nodes are in", a, pool, len(v.Taken)-1)
			}
		}
		if beside := netip.MustParsePrefix("203.0.113.0/25"); !slices.ContainsFunc(table.Routes, func(r Route) bool { return r.Dst == beside }) {
			t.Fatalf("the pool beside is not answered for: %v", table.Routes)
		}
	})
}

// drawWithin draws an address of a block.
func drawWithin(t *rapid.T, p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		if rapid.Bool().Draw(t, "bit") {
			b[bit/8] |= 0x80 >> (bit % 8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
