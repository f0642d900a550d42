package ipam

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestAFreeSetKnowsItsSize counts addresses one by one.
func TestAFreeSetKnowsItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f freeSet
		there := map[netip.Addr]bool{}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			a := netip.AddrFrom4([4]byte{192, 0, byte(rapid.IntRange(0, 2).Draw(t, "net")), rapid.Byte().Draw(t, "host")})
			if rapid.Bool().Draw(t, "give") {
				f.give(a)
				there[a] = true
			} else {
				f.take(a)
				delete(there, a)
			}
		}
		if got := f.size(); got != uint64(len(there)) {
			t.Fatalf("%d addresses, counted %d", got, len(there))
		}
	})
}
