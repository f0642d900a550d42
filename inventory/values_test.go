package inventory

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestASNs(t *testing.T) {
	for s, want := range map[string]ASN{"65010": 65010, "65010.10": 65010<<16 | 10, "0.1": 1, "4294967294": 4294967294} {
		if got, err := ParseASN(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "65535", "23456", "4294967295", "4294967296", "65536.1", "1.65536", "1.", ".1", "AS1", "1e3"} {
		if got, err := ParseASN(s); err == nil {
			t.Errorf("%q is AS %v", s, got)
		}
	}
}

func TestCommunitiesAreASetInOneForm(t *testing.T) {
	a, _ := ParseCommunity("65010:100")
	b, _ := ParseCommunity("large:65010:1:7")
	c, _ := ParseCommunity("graceful-shutdown")
	one, other := CommunitiesOf(a, b, c, a), CommunitiesOf(c, b).With(a)
	if one != other || one != "65010:100 65535:0 large:65010:1:7" || !one.Has(b) || one.Has(NoExport) {
		t.Errorf("%q and %q", one, other)
	}
	if got := slices.Collect(one.All()); !slices.Equal(got, []Community{a, c, b}) {
		t.Errorf("%v", got)
	}
	if a.Uint32() != 65010<<16|100 {
		t.Errorf("%d", a.Uint32())
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		written, printed string
		size             uint64
	}{
		{"203.0.113.0/25", "203.0.113.0/25", 128},
		{"203.0.113.0-203.0.113.127", "203.0.113.0-203.0.113.127", 128},
		{"203.0.113.7", "203.0.113.7", 1},
		{"203.0.113.7/32", "203.0.113.7/32", 1},
		{"203.0.113.7-203.0.113.7", "203.0.113.7", 1},
		{"2001:db8::/112", "2001:db8::/112", 65536},
		{"2001:db8::/64", "2001:db8::/64", math.MaxUint64},
		{"2001:db8::/48", "2001:db8::/48", math.MaxUint64},
		{"2001:db8::ffff:ffff:ffff:fff0-2001:db8:0:1::f", "2001:db8::ffff:ffff:ffff:fff0-2001:db8:0:1::f", 32},
	} {
		r, err := ParseRange(c.written)
		if err != nil || r.String() != c.printed || r.Size() != c.size {
			t.Errorf("%s: prints %s, has %d, %v", c.written, r, r.Size(), err)
		}
	}
	r, _ := ParseRange("203.0.113.5-203.0.113.9")
	for s, want := range map[string]bool{"203.0.113.4": false, "203.0.113.5": true, "203.0.113.9": true, "203.0.113.10": false, "::cb00:7105": false} {
		if r.Contains(addr(s)) != want {
			t.Errorf("%s in %s: want %v", s, r, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		total int
		want  int
	}{
		{oneOrPercent(5), 0, 1}, {oneOrPercent(5), 10, 1}, {oneOrPercent(5), 21, 2}, {oneOrPercent(5), 5000, 250}, {Limit{}, 10, 0},
		{LimitNumber(3), 10, 3}, {LimitNumber(0), 10, 0}, {LimitPercent(5), 10, 1}, {LimitPercent(0), 10, 0}, {LimitPercent(100), 10, 10},
	} {
		if got := c.limit.Of(c.total); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.limit, c.total, got, c.want)
		}
	}
}

func TestSelectors(t *testing.T) {
	labels := map[string]string{"tier": "web", "site": "b1"}
	for _, c := range []struct {
		s    Selector
		want bool
	}{
		{Selector{}, true},
		{Selector{MatchLabels: map[string]string{"tier": "web"}}, true},
		{Selector{MatchLabels: map[string]string{"tier": "db"}}, false},
		{Selector{MatchExpressions: []Requirement{{"tier", OpIn, []string{"db", "web"}}}}, true},
		{Selector{MatchExpressions: []Requirement{{"none", OpIn, []string{""}}}}, false},
		{Selector{MatchExpressions: []Requirement{{"tier", OpNotIn, []string{"web"}}}}, false},
		{Selector{MatchExpressions: []Requirement{{"none", OpNotIn, []string{"web"}}}}, true},
		{Selector{MatchExpressions: []Requirement{{"site", OpExists, nil}, {"none", OpDoesNotExist, nil}}}, true},
		{Selector{MatchExpressions: []Requirement{{"none", OpExists, nil}}}, false},
	} {
		if c.s.Matches(labels) != c.want {
			t.Errorf("%s on %v: want %v", c.s, labels, c.want)
		}
	}
}

func TestAliasesCannotMakeADocumentEndless(t *testing.T) {
	spec := "x-a: &a {k0: v"
	for i := range 200 {
		spec += ", k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": v"
	}
	spec += "}\nracks:\n- name: r01\n  machines:\n"
	for range 200 {
		spec += "  - {name: w, addresses: [10.1.1.1], labels: *a}\n"
	}
	_, problems := Parse(specDocument(spec))
	for _, p := range problems {
		if p.Code == TooManyAliases {
			return
		}
	}
	t.Error(len(problems), "problems, and none of them is about aliases")
}

func TestAnchorsAndMergesAreUnderstood(t *testing.T) {
	inv := specOf(t, `
x-worker: &worker {type: r640, taints: &t [{key: a, effect: NoSchedule}]}
racks:
	- name: r01
		machines:
			- {<<: *worker, name: w1, addresses: [10.1.1.1]}
			- {<<: [*worker, {type: other, reason: merged}], name: w2, taints: *t, addresses: [10.1.1.2]}
			- {name: w3, <<: *worker, type: own, addresses: [10.1.1.3]}
`)
	for name, want := range map[string]string{"w1": "r640", "w2": "r640", "w3": "own"} {
		if m, _ := inv.Machine(name); m.Type != want || len(m.Taints) != 1 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m, _ := inv.Machine("w2"); m.Reason != "merged" {
		t.Errorf("%+v", m)
	}
}

func TestAnOlderProgramReadsWhatANewerOneWrote(t *testing.T) {
	doc := specDocument("racks:\n- name: r01\n  colour: red\n  machines: [{name: w1, addresses: [10.1.1.1], held: true, wheels: 4}]\nfloors: [1]\n")
	inv, problems := ParseAccepted(doc)
	if inv == nil {
		t.Fatal(problems)
	}
	if m, _ := inv.Machine("w1"); !m.Held {
		t.Error("w1 is not held")
	}
	if inv, _ := Parse(doc); inv != nil {
		t.Error("people may write what only Plinth writes")
	}
}

func TestEveryFieldOfTheRawTypesIsReadAndDescribed(t *testing.T) {
	read := map[string]fields{}
	for raw, all := range fieldsByType {
		read[raw.Name()] = all
	}
	for _, doc := range Types() {
		var keys []string
		for _, f := range doc.Fields {
			keys = append(keys, f.Key)
			if f.Doc == "" || f.Key == "" {
				t.Errorf("%s.%s is not described", doc.Name, f.Key)
			}
			if read := read[doc.Name][f.Key].read; read == nil && !strings.Contains(f.Type, "raw") {
				t.Errorf("%s.%s: its form %q has no reader", doc.Name, f.Key, f.Form)
			}
		}
		slices.Sort(keys)
		if got := slices.Sorted(maps.Keys(read[doc.Name])); !slices.Equal(keys, got) {
			t.Errorf("%s has the fields\n%v\nand these are read\n%v", doc.Name, keys, got)
		}
		delete(read, doc.Name)
	}
	for _, stored := range []string{"rawStoredLink", "rawStoredLinkMachine"} { // by Plinth alone
		delete(read, stored)
	}
	for name := range read {
		t.Errorf("%s is no type", name)
	}
}
