package inventory_test

import (
	"math"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

func TestASNs(t *testing.T) {
	for s, want := range map[string]inventory.ASN{"65010": 65010, "65010.10": 65010<<16 | 10, "0.1": 1, "4294967294": 4294967294} {
		if got, err := inventory.ParseASN(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "65535", "23456", "4294967295", "4294967296", "65536.1", "1.65536", "1.", ".1", "AS1", "1e3"} {
		if got, err := inventory.ParseASN(s); err == nil {
			t.Errorf("%q is AS %v", s, got)
		}
	}
}

func TestCommunitiesAreASetInOneForm(t *testing.T) {
	a, _ := inventory.ParseCommunity("65010:100")
	b, _ := inventory.ParseCommunity("large:65010:1:7")
	c, _ := inventory.ParseCommunity("graceful-shutdown")
	one, other := inventory.CommunitiesOf(a, b, c, a), inventory.CommunitiesOf(c, b).With(a)
	if one != other || one != "65010:100 65535:0 large:65010:1:7" || !one.Has(b) || one.Has(inventory.NoExport) {
		t.Errorf("%q and %q", one, other)
	}
	if got := slices.Collect(one.All()); !slices.Equal(got, []inventory.Community{a, c, b}) {
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
		r, err := document.ParseRange(c.written)
		if err != nil || r.String() != c.printed || r.Size() != c.size {
			t.Errorf("%s: prints %s, has %d, %v", c.written, r, r.Size(), err)
		}
	}
	r, _ := document.ParseRange("203.0.113.5-203.0.113.9")
	for s, want := range map[string]bool{"203.0.113.4": false, "203.0.113.5": true, "203.0.113.9": true, "203.0.113.10": false, "::cb00:7105": false} {
		if r.Contains(addr(s)) != want {
			t.Errorf("%s in %s: want %v", s, r, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limit inventory.Limit
		total int
		want  int
	}{
		{inventory.LimitOneOrPercent(5), 0, 1}, {inventory.LimitOneOrPercent(5), 10, 1}, {inventory.LimitOneOrPercent(5), 21, 2}, {inventory.LimitOneOrPercent(5), 5000, 250}, {inventory.Limit{}, 10, 0},
		{inventory.LimitNumber(3), 10, 3}, {inventory.LimitNumber(0), 10, 0}, {inventory.LimitPercent(5), 10, 1}, {inventory.LimitPercent(0), 10, 0}, {inventory.LimitPercent(100), 10, 10},
	} {
		if got := c.limit.Of(c.total); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.limit, c.total, got, c.want)
		}
	}
}

func TestSelectors(t *testing.T) {
	labels := map[string]string{"tier": "web", "site": "b1"}
	for _, c := range []struct {
		s    inventory.Selector
		want bool
	}{
		{inventory.Selector{}, true},
		{inventory.Selector{MatchLabels: map[string]string{"tier": "web"}}, true},
		{inventory.Selector{MatchLabels: map[string]string{"tier": "db"}}, false},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "tier", Operator: inventory.OpIn, Values: []string{"db", "web"}}}}, true},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "none", Operator: inventory.OpIn, Values: []string{""}}}}, false},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "tier", Operator: inventory.OpNotIn, Values: []string{"web"}}}}, false},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "none", Operator: inventory.OpNotIn, Values: []string{"web"}}}}, true},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "site", Operator: inventory.OpExists, Values: nil}, {Key: "none", Operator: inventory.OpDoesNotExist, Values: nil}}}, true},
		{inventory.Selector{MatchExpressions: []inventory.Requirement{{Key: "none", Operator: inventory.OpExists, Values: nil}}}, false},
	} {
		if c.s.Matches(labels) != c.want {
			t.Errorf("%s on %v: want %v", c.s, labels, c.want)
		}
	}
}
