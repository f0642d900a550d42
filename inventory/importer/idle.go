package importer

import (
	"fmt"
	"slices"

	"plinth.dev/plinth/inventory"
)

// idlePart is a part of some selectors that makes no difference to what they choose, out of the things that were read.
type idlePart struct{ path, message string }

// idleParts are those of selectors of which one has to match, each at a path. Each is what a user would not miss, and may have meant otherwise: a selector that chooses
// nothing, or nothing that is not chosen before it, an expression or a value that nothing has. One who looks at what comes out cannot see it.
func idleParts(path func(int) string, things string, all []inventory.Selector, labels []map[string]string, before []bool) (parts []idlePart) {
	chosen := slices.Clone(before)
	for i, selector := range all {
		at, any, more := path(i), false, false
		for j, of := range labels {
			if selector.Matches(of) {
				any, more = true, more || !chosen[j]
				chosen[j] = true
			}
		}
		switch {
		case !any:
			parts = append(parts, idlePart{at, fmt.Sprintf("%s chooses no %s that was read", selector, things)})
		case !more:
			parts = append(parts, idlePart{at, fmt.Sprintf("%s chooses no %s that is not chosen already", selector, things)})
		default:
			parts = append(parts, idleExpressions(at, things, selector, labels)...)
		}
	}
	return parts
}

// idleExpressions are the parts of one selector without which it chooses the same.
func idleExpressions(path, things string, selector inventory.Selector, labels []map[string]string) (parts []idlePart) {
	same := func(other inventory.Selector) bool {
		return !slices.ContainsFunc(labels, func(of map[string]string) bool { return selector.Matches(of) != other.Matches(of) })
	}
	for i, requirement := range selector.MatchExpressions {
		at, rest := fmt.Sprintf("%s.matchExpressions[%d]", path, i), selector
		rest.MatchExpressions = slices.Delete(slices.Clone(selector.MatchExpressions), i, i+1)
		if (requirement.Operator == inventory.OpNotIn || requirement.Operator == inventory.OpDoesNotExist) && same(rest) {
			parts = append(parts, idlePart{at, fmt.Sprintf("without %s the same %ss are chosen of those that were read", requirement, things)})
			continue
		}
		values := requirement.Values
		for j := len(values) - 1; j >= 0 && len(values) > 1; j-- {
			fewer := selector
			fewer.MatchExpressions = slices.Clone(selector.MatchExpressions)
			fewer.MatchExpressions[i].Values = slices.Delete(slices.Clone(values), j, j+1)
			if same(fewer) {
				values = fewer.MatchExpressions[i].Values
				parts = append(parts, idlePart{fmt.Sprintf("%s.values[%d]", at, j), fmt.Sprintf("without %q the same %ss are chosen of those that were read", requirement.Values[j], things)})
			}
		}
	}
	return parts
}
