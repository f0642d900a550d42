package routing

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A law: whoever compares each Node with each other finds the same Nodes, and each is told one that it does overlap with.
func TestOverlapsAreThoseThatComparingAllPairsFinds(t *testing.T) {
	blocks := rapid.Custom(func(t *rapid.T) netip.Prefix {
		bits := rapid.IntRange(22, 28).Draw(t, "bits")
		if rapid.Bool().Draw(t, "IPv6") {
			return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 15: rapid.Byte().Draw(t, "address")}), 100+bits)
		}
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, rapid.ByteRange(0, 7).Draw(t, "network"), rapid.Byte().Draw(t, "address")}), bits)
	})
	rapid.Check(t, func(t *rapid.T) {
		cidrs := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.SliceOfN(blocks, 0, 3), 0, 5).Draw(t, "cidrs")
		overlap := func(a, b string) bool {
			return slices.ContainsFunc(cidrs[a], func(p netip.Prefix) bool { return slices.ContainsFunc(cidrs[b], p.Overlaps) })
		}
		crowded := map[string]bool{}
		for a := range cidrs {
			for b := range cidrs {
				if a != b && overlap(a, b) {
					crowded[a] = true
				}
			}
		}
		got := Overlaps(cidrs)
		if found := slices.Sorted(maps.Keys(got)); !slices.Equal(found, slices.Sorted(maps.Keys(crowded))) {
			t.Fatalf("%v: found %v, want %v", cidrs, found, crowded)
		}
		for node, other := range got {
			if !overlap(node, other) {
				t.Fatalf("%v: %s does not overlap with %s", cidrs, node, other)
			}
		}
	})
}
