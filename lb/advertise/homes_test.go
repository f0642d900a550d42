package advertise

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func spreadOf(machines []string, homes map[netip.Addr][]string, place int) (most, least int) {
	count := map[string]int{}
	for _, h := range homes {
		if place < len(h) {
			count[h[place]]++
		}
	}
	least = len(homes)
	for _, m := range machines {
		most, least = max(most, count[m]), min(least, count[m])
	}
	return most, least
}

// Laws: homes are balanced in the first place and in the second; the same input in another order gives the
// same; what is balanced stays as it is; a machine that leaves moves first places of its own alone.
func TestHomesAreBalancedAndStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var machines []string
		for i := range rapid.IntRange(1, 8).Draw(t, "machines") {
			machines = append(machines, fmt.Sprintf("m%d", i))
		}
		var all []Home
		for i := range rapid.IntRange(1, 40).Draw(t, "vips") {
			h := Home{VIP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
			for range rapid.IntRange(0, 3).Draw(t, "held") {
				h.Held = append(h.Held, rapid.SampledFrom(machines).Draw(t, "home"))
			}
			all = append(all, h)
		}
		homes := Homes(machines, all)
		for place := range min(2, len(machines)) {
			if most, least := spreadOf(machines, homes, place); most-least > 1 {
				t.Fatalf("place %d: from %d to %d: %v", place, least, most, homes)
			}
		}
		for vip, h := range homes {
			if len(h) != min(places, len(machines)) || len(slices.Compact(slices.Sorted(slices.Values(h)))) != len(h) {
				t.Fatalf("%v has %v", vip, h)
			}
		}
		slices.Reverse(all)
		slices.Reverse(machines)
		if again := Homes(machines, all); !reflect.DeepEqual(again, homes) {
			t.Fatalf("in another order: %v, before %v", again, homes)
		}
		for i := range all {
			all[i].Held = homes[all[i].VIP]
		}
		if again := Homes(machines, all); !reflect.DeepEqual(again, homes) {
			t.Fatalf("what is balanced moved: %v, before %v", again, homes)
		}
		if len(machines) < 2 {
			return
		}
		gone := rapid.SampledFrom(machines).Draw(t, "gone")
		left := slices.DeleteFunc(slices.Clone(machines), func(m string) bool { return m == gone })
		for vip, h := range Homes(left, all) {
			if homes[vip][0] != gone && h[0] != homes[vip][0] {
				t.Fatalf("%v moved from %s to %s when %s left", vip, homes[vip][0], h[0], gone)
			}
		}
	})
}

// Laws: a pin is the first home, whatever it costs others; all else is balanced as far as that goes: who has two more than
// another has nothing but pins. A second look moves nothing.
func TestPinsAreFirstAndTheOthersAreBalancedAroundThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var machines []string
		for i := range rapid.IntRange(1, 8).Draw(t, "machines") {
			machines = append(machines, fmt.Sprintf("m%d", i))
		}
		all := make([]Home, rapid.IntRange(1, 40).Draw(t, "vips"))
		for i := range all {
			all[i].VIP = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			if rapid.Bool().Draw(t, "pinned") {
				all[i].Pin = rapid.SampledFrom(append([]string{"gone"}, machines...)).Draw(t, "pin")
			}
		}
		homes := Homes(machines, all)
		free, count := map[string]int{}, map[string]int{}
		for i := range all {
			h, first := &all[i], homes[all[i].VIP][0]
			count[first]++
			switch {
			case h.Pin == "" || h.Pin == "gone":
				free[first]++
			case h.Pin != first:
				t.Fatalf("%v is pinned to %s, and its homes are %v", h.VIP, h.Pin, homes[h.VIP])
			}
			h.Held = homes[h.VIP]
		}
		for _, a := range machines {
			for _, b := range machines {
				if count[a] >= count[b]+2 && free[a] > 0 {
					t.Fatalf("%s has %d, %d of them not pinned, and %s has %d: %v", a, count[a], free[a], b, count[b], homes)
				}
			}
		}
		if again := Homes(machines, all); !reflect.DeepEqual(again, homes) {
			t.Fatalf("a second look: %v, before %v", again, homes)
		}
	})
}

func BenchmarkHomes(b *testing.B) {
	for _, size := range []struct{ machines, vips int }{{3, 10}, {5, 50}, {32, 1000}} {
		b.Run(fmt.Sprintf("%d on %d", size.vips, size.machines), func(b *testing.B) {
			var machines []string
			for i := range size.machines {
				machines = append(machines, fmt.Sprintf("m%d", i))
			}
			all := make([]Home, size.vips)
			for i := range all {
				all[i].VIP = netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
			}
			for i, homes := 0, Homes(machines, all); i < len(all); i++ {
				all[i].Held = homes[all[i].VIP]
			}
			for b.Loop() {
				Homes(machines[1:], all)
			}
		})
	}
}

func TestAPinIsFirstAndOthersMakeRoom(t *testing.T) {
	machines := []string{"a", "b", "c"}
	all := []Home{
		{VIP: netip.MustParseAddr("192.0.2.1"), Held: []string{"b", "c", "a"}, Pin: "a"},
		{VIP: netip.MustParseAddr("192.0.2.2"), Held: []string{"a", "b", "c"}},
		{VIP: netip.MustParseAddr("192.0.2.3"), Held: []string{"c", "a", "b"}},
		{VIP: netip.MustParseAddr("192.0.2.4"), May: []string{"b", "c"}},
	}
	homes := Homes(machines, all)
	if got := homes[all[0].VIP][0]; got != "a" {
		t.Errorf("the pinned one is at %s", got)
	}
	if slices.Contains(homes[all[3].VIP], "a") {
		t.Errorf("one that may be at b and c is at %v", homes[all[3].VIP])
	}
	if most, least := spreadOf(machines, homes, 0); most-least > 1 {
		t.Errorf("from %d to %d: %v", least, most, homes)
	}
}
