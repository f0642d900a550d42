package ipam

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPortsInCommonAreFoundWithAComparisonForEach(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(most int) (ports []Port) {
		for range random.IntN(most + 1) {
			ports = append(ports, Port{Protocol: []string{"SCTP", "TCP", "UDP"}[random.IntN(3)], Number: uint16(random.IntN(3 * most))})
		}
		slices.SortFunc(ports, Port.Compare)
		return ports
	}
	found := map[bool]int{}
	for range 2000 {
		x, y := some(20), some(20)
		compared := 0
		got := inCommon(x, y, func(a, b Port) int {
			compared++
			return a.Compare(b)
		})
		want := slices.ContainsFunc(x, func(p Port) bool { return slices.Contains(y, p) })
		if got != want || compared > len(x)+len(y) {
			t.Fatalf("%v and %v: %v after %d comparisons, want %v after at most %d", x, y, got, compared, want, len(x)+len(y))
		}
		found[got]++
	}
	if found[true] < 100 || found[false] < 100 {
		t.Errorf("too few of one kind were tried: %v", found)
	}
}
