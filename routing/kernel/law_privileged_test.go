//go:build privileged

package kernel

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/routing"
)

// variants are the ways in which a table may have each of a few destinations.
var variants = [][]routing.Route{
	{via("10.244.2.0/24", "10.1.0.12"), via("10.244.2.0/24", "10.1.0.13"), via("10.244.2.0/24", "10.1.0.12", "10.1.0.13"), of(routing.Unreachable, "10.244.2.0/24")},
	{via("10.244.0.0/16", "10.1.0.1"), via("10.244.0.0/16", "10.1.0.1", "10.1.0.2"), via("10.244.0.0/16", "10.1.0.1", "10.1.0.2", "10.1.0.3")},
	{of(routing.Unreachable, "10.244.1.0/24"), via("10.244.1.0/24", "10.1.0.12")},
	{via("fd00:244:0:2::/64", "fd01::12"), via("fd00:244:0:2::/64", "fd01::13"), via("fd00:244:0:2::/64", "fd01::12", "fd01::13"), of(routing.Unreachable, "fd00:244:0:2::/64")},
	{via("fd00:244::/48", "fd01::1"), via("fd00:244::/48", "fd01::1", "fd01::2"), via("fd00:244::/48", "fd01::1", "fd01::2", "fd01::3")},
	{of(routing.Unreachable, "fd00:244:0:1::/64"), via("fd00:244:0:1::/64", "fd01::12")},
	{of(routing.UnreachableForwarded, "203.0.113.0/25")}, {of(routing.UnreachableForwarded, "203.0.113.128/25")},
	{of(routing.UnreachableForwarded, "2001:db8:113::/112")},
}

func drawTable(t *rapid.T) (rs []routing.Route) {
	for _, v := range variants {
		if i := rapid.IntRange(-1, len(v)-1).Draw(t, v[0].Dst.String()); i >= 0 {
			rs = append(rs, v[i])
		}
	}
	return sorted(rs...)
}

// Each table is set on top of what those before it left.
func TestTheKernelHoldsWhatWasSetLastWhateverWasSetBefore(t *testing.T) {
	uplink(t)
	tab := table(t)
	rapid.Check(t, func(rt *rapid.T) {
		want := drawTable(rt)
		if s, err := tab.Set(t.Context(), want); err != nil || s.Have != len(want) || len(s.Retried) > 0 {
			rt.Fatalf("%+v: %v", s, err)
		}
		if got := held(t); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("the kernel has %v, want %v", got, want)
		}
		if rapid.Bool().Draw(rt, "doubt") {
			tab.Invalidate() // it looks at all of it once more
		}
		if s, err := tab.Set(t.Context(), want); err != nil || s.Changed != 0 {
			rt.Fatalf("the same once more: %+v: %v", s, err)
		}
	})
}
