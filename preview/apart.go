package preview

import (
	"cmp"
	"slices"

	"plinth.dev/plinth/lb"
)

// PodsApart are pods between which Plinth plans no way, for one reason, and the default route of their machines leads
// none that it knows of.
type PodsApart struct {
	Family lb.Family
	Reason string      // as of a [Way]
	Racks  [][2]string // from and to, sorted
	Pairs  int         // of machines, each way counted
}

// PodsApart returns the ways that pods lack, by family and reason, sorted.
func (p *Preview) PodsApart() (out []PodsApart) {
	for _, path := range p.PodPaths() {
		for _, way := range path.Ways {
			if way.Kind != NoWay || len(way.In) > 0 {
				continue
			}
			i := slices.IndexFunc(out, func(a PodsApart) bool { return a.Family == way.Family && a.Reason == way.Reason })
			if i < 0 {
				i, out = len(out), append(out, PodsApart{Family: way.Family, Reason: way.Reason})
			}
			out[i].Racks = append(out[i].Racks, [2]string{path.From, path.To})
			out[i].Pairs += way.Pairs
		}
	}
	slices.SortFunc(out, func(a, b PodsApart) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
