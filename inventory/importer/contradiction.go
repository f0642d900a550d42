package importer

import (
	"maps"
	"slices"

	"plinth.dev/plinth/inventory"
)

// asked is all that a selector asks of one label.
type asked struct {
	in      []string // values of which it has to have one, where some is set
	some    bool     // a list of values was given
	notIn   []string
	present bool
	absent  bool
}

// contradicts reports whether no labels at all meet a selector.
func contradicts(selector inventory.Selector) bool {
	byKey := map[string]*asked{}
	of := func(key string) *asked {
		if byKey[key] == nil {
			byKey[key] = &asked{}
		}
		return byKey[key]
	}
	for key, value := range selector.MatchLabels {
		of(key).oneOf([]string{value})
	}
	for _, e := range selector.MatchExpressions {
		switch answer := of(e.Key); e.Operator {
		case inventory.OpIn:
			answer.oneOf(e.Values)
		case inventory.OpNotIn:
			answer.notIn = append(answer.notIn, e.Values...)
		case inventory.OpExists:
			answer.present = true
		default:
			answer.absent = true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(byKey)), (*asked).never)
}

// oneOf asks for one of some values, besides what is asked already.
func (a *asked) oneOf(values []string) {
	if !a.some {
		a.in, a.some, a.present = values, true, true
		return
	}
	a.in = slices.DeleteFunc(slices.Clone(a.in), func(v string) bool { return !slices.Contains(values, v) })
}

// never reports whether a label can be neither there nor not there.
func (a *asked) never() bool {
	none := a.some && !slices.ContainsFunc(a.in, func(v string) bool { return !slices.Contains(a.notIn, v) })
	return a.present && (a.absent || none)
}
