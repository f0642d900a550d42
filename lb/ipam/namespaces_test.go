package ipam

import (
	"slices"
	"testing"

	"plinth.dev/plinth/lb"
)

const teamPool = `
    - {name: a-team, addresses: [10.0.0.0/31], namespaceSelectors: [{matchLabels: {team: x}}, {matchExpressions: [{key: shared, operator: Exists}]}]}
    - {name: b-named, addresses: [10.0.1.0/32], namespaces: [named], namespaceSelectors: [{matchLabels: {team: x}}], serviceSelectors: [{matchLabels: {tier: web}}, {matchLabels: {tier: mail}}]}
`

// TestServicesThatWaitAreServedOnceTheirNamespaceIsLabelled: those of this one alone, and a
// change that no pool looks at is no event.
func TestServicesThatWaitAreServedOnceTheirNamespaceIsLabelled(t *testing.T) {
	s := NewState()
	s.SetPools(pools(t, teamPool))
	waits := []Request{service("prod/a", "4"), service("prod/b", "4"), service("test/c", "4")}
	for _, r := range waits {
		d, _ := s.Request(r, noon)
		if !d.Refused || d.Denials[0].Reason != lb.NamespaceNotAllowed {
			t.Fatalf("%v got %s", r.Service, d)
		}
		s.Settle(r, d, noon)
	}
	if changed, e := s.ObserveNamespace("prod", map[string]string{"owner": "z"}, noon); changed || len(e.Reconcile) > 0 {
		t.Errorf("a label that no pool selects by changes %v: %v", changed, e)
	}
	changed, e := s.ObserveNamespace("prod", map[string]string{"team": "x"}, noon)
	var again []lb.ServiceKey
	for _, r := range e.Reconcile {
		again = append(again, r.Service)
	}
	if want := []lb.ServiceKey{waits[0].Service, waits[1].Service}; !changed || !slices.Equal(again, want) {
		t.Errorf("looked at again are %v, want %v", again, want)
	}
	for _, r := range waits[:2] {
		if d, _ := s.Request(r, noon); d.Refused || d.VIPs[0].Pool != "a-team" {
			t.Errorf("%v gets %s", r.Service, d)
		}
	}

	held := s.Holds(waits[0].Service)
	changed, _ = s.ObserveNamespace("prod", map[string]string{"team": "y"}, noon)
	if d, _ := s.Request(waits[0], noon); !changed || !slices.Equal(d.Addrs(), held) || len(d.Release) > 0 {
		t.Errorf("once its namespace is another team's, what it held is %s", d)
	}
	if reason := s.MayAdopt(held[0], waits[0], noon); reason != lb.NamespaceNotAllowed {
		t.Errorf("it would not get it now for %q", reason)
	}
	if s.ForgetNamespace("prod"); s.HasNamespace("prod") {
		t.Error("a Namespace that is gone is known")
	}
}

func TestAPoolIsForNamespacesThatItNamesOrSelectsAndForServicesThatAnySelectorMatches(t *testing.T) {
	for _, tt := range []struct {
		service, team, tier string
		want                lb.Reason
	}{
		{"named/s", "", "web", ""},
		{"named/s", "y", "mail", ""},
		{"other/s", "x", "mail", ""},
		{"other/s", "y", "web", lb.NamespaceNotAllowed},
		{"other/s", "", "web", lb.NamespaceNotAllowed},
		{"named/s", "x", "", lb.LabelsNotSelected},
		{"named/s", "", "db", lb.LabelsNotSelected},
	} {
		l := ledgerOf(t, teamPool)
		r := service(tt.service, "4")
		r.Pool = "b-named"
		if tt.tier != "" {
			r.Labels = map[string]string{"tier": tt.tier}
		}
		if tt.team != "" {
			l.SetNamespace(r.Service.Namespace, map[string]string{"team": tt.team})
		}
		d := Allocate(l, r, noon)
		got := lb.Reason("")
		if d.Refused {
			got = d.Denials[0].Reason
		}
		if got != tt.want {
			t.Errorf("%+v: %s", tt, d)
		}
	}
}
