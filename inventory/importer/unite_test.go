package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// TestTheFirstOfUnitedAdvertisementsSaysWhatAllSay: for each Service, rack and router.
func TestTheFirstOfUnitedAdvertisementsSaysWhatAllSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks, routers, values := []string{"r1", "r2"}, []string{"a", "b"}, []string{"x", "y"}
		some := func(from []string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID).Draw(t, "some")
		}
		var given []inventory.Advertise
		for i := range rapid.IntRange(0, 5).Draw(t, "given") {
			a := newAdvertise()
			a.Racks, a.Routers = some(racks), some(routers)
			a.Communities = inventory.CommunitiesOf(inventory.Community{Global: 1, Local1: uint32(rapid.IntRange(0, i).Draw(t, "community"))})
			for _, key := range []string{"k", "l"} {
				if v := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, key); v != "" {
					a.Selector, _ = bothSelectors(a.Selector, inventory.Selector{MatchLabels: map[string]string{key: v}})
				}
			}
			given = append(given, a)
		}
		all, ok := united(given)
		if !ok {
			return
		}
		for _, rack := range racks {
			for _, router := range routers {
				for _, k := range values {
					for _, l := range values {
						fits := func(a inventory.Advertise) bool {
							return allOf(a.Racks, rack) && allOf(a.Routers, router) && a.Selector.Matches(map[string]string{"k": k, "l": l})
						}
						var want []string
						for _, a := range given {
							if fits(a) {
								want = append(want, strings.Fields(string(a.Communities))...)
							}
						}
						slices.Sort(want)
						got := []string(nil)
						if i := slices.IndexFunc(all, fits); i >= 0 {
							got = strings.Fields(string(all[i].Communities))
						}
						if fmt.Sprint(slices.Compact(want)) != fmt.Sprint(got) {
							t.Fatalf("rack %s, router %s, k=%s, l=%s: %v, want %v: %+v of %+v", rack, router, k, l, got, want, all, given)
						}
					}
				}
			}
		}
	})
}
