package vip

import "testing"

func TestARestoreIsTheOnlyReasonToBeginAnew(t *testing.T) {
	type told struct{ seen, heard string }
	for name, c := range map[string]struct {
		told []told
		back bool
	}{
		"nothing seen yet":            {[]told{{"", ""}, {"", "5"}, {"", "9"}}, false},
		"the informer lags":           {[]told{{"5", "9"}, {"7", "9"}, {"7", "12"}}, false},
		"the informer is ahead":       {[]told{{"5", "5"}, {"12", "12"}}, false},
		"the cluster is behind":       {[]told{{"9", "9"}, {"9", "7"}}, true},
		"behind what an informer saw": {[]told{{"5", "5"}, {"12", "7"}}, true},
		"the informer has begun anew": {[]told{{"12", ""}, {"7", ""}}, true},
		"nothing heard for a while":   {[]told{{"5", "5"}, {"6", ""}, {"7", "8"}}, false},
		"one more digit":              {[]told{{"99", "99"}, {"100", "100"}}, false},
	} {
		var v versions
		for _, t := range c.told {
			v.see(t.seen)
			if t.heard != "" {
				v.hear(t.heard)
			}
		}
		if v.back != c.back {
			t.Errorf("%s: went back is %v (from %s to %s)", name, v.back, v.before, v.now)
		}
	}
}

func TestResourceVersionsThatGoBackAreNoticed(t *testing.T) {
	for _, c := range []struct {
		before, now string
		back        bool
		later       string
	}{
		{"", "7", false, "7"},
		{"7", "", false, "7"},
		{"7", "7", false, "7"},
		{"7", "8", false, "8"},
		{"100", "99", true, "100"},
		{"9", "10", false, "10"},
		{"18446744073709551616", "2", true, "18446744073709551616"},
		{"what etcd never says", "2", false, "what etcd never says"},
	} {
		if got := newer(c.before, c.now); got != c.back {
			t.Errorf("from %q to %q: went back is %v", c.before, c.now, got)
		}
		if got := later(c.before, c.now); got != c.later {
			t.Errorf("the later of %q and %q is %q, want %q", c.before, c.now, got, c.later)
		}
	}
}
