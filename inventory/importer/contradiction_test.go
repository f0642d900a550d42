package importer

import (
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// TestWhatContradictsItselfMatchesNothing tries all labels of two keys that a selector may speak of.
func TestWhatContradictsItselfMatchesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, values := rapid.SampledFrom([]string{"k", "l"}), []string{"x", "y", "z"}
		s := inventory.Selector{MatchLabels: rapid.MapOfN(key, rapid.SampledFrom(values), 0, 2).Draw(t, "labels")}
		for range rapid.IntRange(0, 4).Draw(t, "expressions") {
			e := inventory.Requirement{Key: key.Draw(t, "key"), Operator: rapid.SampledFrom([]inventory.Operator{inventory.OpIn, inventory.OpNotIn, inventory.OpExists, inventory.OpDoesNotExist}).Draw(t, "operator")}
			if e.Operator == inventory.OpIn || e.Operator == inventory.OpNotIn {
				e.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 3, rapid.ID).Draw(t, "values")
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		any := false
		for _, k := range append(values, "", "other") {
			for _, l := range append(values, "", "other") {
				labels := map[string]string{}
				if k != "" {
					labels["k"] = k
				}
				if l != "" {
					labels["l"] = l
				}
				any = any || s.Matches(labels)
			}
		}
		if contradicts(s) == any {
			t.Fatalf("%v matches something: %v", s, any)
		}
	})
}

// TestAnAdvertisementOfNoServiceIsNoted and two that no Service can have together make none that is of both.
func TestAnAdvertisementOfNoServiceIsNoted(t *testing.T) {
	text := `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: a}, spec: {addresses: [192.0.2.0/24]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: red}, spec: {communities: ["65000:1"], serviceSelectors: [{matchExpressions: [{key: c, operator: In, values: [red]}]}]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: blue}, spec: {communities: ["65000:2"], serviceSelectors: [{matchExpressions: [{key: c, operator: In, values: [blue]}]}]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: none}, spec: {communities: ["65000:3"], serviceSelectors: [{matchLabels: {c: red}, matchExpressions: [{key: c, operator: In, values: [blue]}]}]}}
`
	options, doc := Options{Sources: []string{"metallb"}}, document.Document{Source: "a", Data: []byte(text)}
	draft := draftOf(options, []document.Document{doc})
	if got := draft.inv.Pools[0].Advertise; len(got) != 2 {
		t.Errorf("%d advertisements: %v", len(got), got)
	}
	if len(draft.notes) != 1 || draft.notes[0].Object != "BGPAdvertisement/none" || draft.notes[0].Code != NotValid {
		t.Error(draft.notes)
	}
	checkLaw(t, options, doc)
}
