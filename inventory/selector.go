package inventory

import (
	"maps"
	"slices"
	"strings"
)

// Selector is a Kubernetes label selector. Its zero value matches everything.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}

// Operator is the comparison of a requirement.
type Operator string

// The operators of a label selector.
const (
	OpIn           Operator = "In"
	OpNotIn        Operator = "NotIn"
	OpExists       Operator = "Exists"
	OpDoesNotExist Operator = "DoesNotExist"
)

// Requirement is one condition on one label.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string // of In and NotIn
}

// Empty reports whether the selector matches everything because it asks for nothing.
func (s Selector) Empty() bool { return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 }

// Keys returns the keys of the labels that the selector looks at.
func (s Selector) Keys() []string {
	keys := slices.Collect(maps.Keys(s.MatchLabels))
	for _, r := range s.MatchExpressions {
		keys = append(keys, r.Key)
	}
	return keys
}

// Matches reports whether the labels meet every condition.
func (s Selector) Matches(labels map[string]string) bool {
	for k, want := range s.MatchLabels {
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

// matches follows the API: a label that is absent is not in any list.
func (r Requirement) matches(labels map[string]string) bool {
	have, ok := labels[r.Key]
	switch r.Operator {
	case OpIn:
		return ok && slices.Contains(r.Values, have)
	case OpNotIn:
		return !ok || !slices.Contains(r.Values, have)
	case OpExists:
		return ok
	default:
		return !ok
	}
}

// String prints the selector as kubectl -l takes it.
func (s Selector) String() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, k+"="+s.MatchLabels[k])
	}
	return strings.Join(append(all, Strings(s.MatchExpressions)...), ",")
}

// String prints the condition as kubectl -l takes it.
func (r Requirement) String() string {
	switch r.Operator {
	case OpIn:
		return r.Key + " in (" + strings.Join(r.Values, ",") + ")"
	case OpNotIn:
		return r.Key + " notin (" + strings.Join(r.Values, ",") + ")"
	case OpExists:
		return r.Key
	default:
		return "!" + r.Key
	}
}
