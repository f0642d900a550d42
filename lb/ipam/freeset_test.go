package ipam

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// addr4 is the nth address of 10.0.0.0/16.
func addr4(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }

func TestFreeSetsAgreeWithASetOfBits(t *testing.T) {
	const size = 600
	rapid.Check(t, func(t *rapid.T) {
		var g freeSet
		free := make([]bool, size)
		g.giveRun(run{addr4(0), addr4(size - 1)})
		for i := range free {
			free[i] = true
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(0, size-1).Draw(t, "n")
				g.take(addr4(n))
				free[n] = false
			},
			"take every other": func(t *rapid.T) {
				for n := rapid.IntRange(0, 1).Draw(t, "from"); n < size; n += 2 {
					g.take(addr4(n))
					free[n] = false
				}
			},
			"give": func(t *rapid.T) {
				n := rapid.IntRange(0, size-1).Draw(t, "n")
				g.give(addr4(n))
				free[n] = true
			},
			"": func(t *rapid.T) { compareFree(t, &g, free) },
		})
	})
}

func compareFree(t *rapid.T, g *freeSet, free []bool) {
	lowest, runs := -1, 0
	for n, f := range free {
		if g.contains(addr4(n)) != f {
			t.Fatalf("%v: free is %v, want %v", addr4(n), !f, f)
		}
		if f && lowest < 0 {
			lowest = n
		}
		if f && (n == 0 || !free[n-1]) {
			runs++
		}
	}
	a, ok := g.lowest()
	if ok != (lowest >= 0) || ok && a != addr4(lowest) {
		t.Fatalf("lowest is %v %v, want number %d", a, ok, lowest)
	}
	have := 0
	for _, leaf := range g.leaves {
		if have += len(leaf); len(leaf) == 0 || len(leaf) > leafSize {
			t.Fatalf("a leaf of %d runs", len(leaf))
		}
	}
	if have != runs {
		t.Fatalf("%d runs, want %d", have, runs)
	}
}

func TestFreeSetsReachBothEndsOfTheAddressSpace(t *testing.T) {
	for _, ends := range [][2]string{{"0.0.0.0", "255.255.255.255"}, {"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}} {
		first, last := netip.MustParseAddr(ends[0]), netip.MustParseAddr(ends[1])
		var g freeSet
		g.giveRun(run{first, last})
		g.take(first)
		g.take(last)
		if g.contains(first) || g.contains(last) {
			t.Errorf("%v and %v are still free", first, last)
		}
		g.give(last)
		g.give(first)
		if len(g.leaves) != 1 || len(g.leaves[0]) != 1 || g.leaves[0][0] != (run{first, last}) {
			t.Errorf("after giving both back: %v", g.leaves)
		}
	}
}
