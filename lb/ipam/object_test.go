package ipam

import (
	"testing"

	"plinth.dev/plinth/lb"
)

func TestClaimOfALaterServiceOfTheNameIsTold(t *testing.T) {
	key, other := lb.ServiceKey{Namespace: "d", Name: "s"}, lb.ServiceKey{Namespace: "d", Name: "t"}
	c := Object{Parent: key, ParentUID: "u2", Holders: []lb.ServiceKey{key, other}}
	for _, tt := range []struct {
		name string
		key  lb.ServiceKey
		uid  string
		want bool
	}{
		{"the same Service", key, "u2", false},
		{"an earlier one of its name", key, "u1", true},
		{"any of its name", key, "", false},
		{"one that shares it", other, "u1", false},
	} {
		if got := c.IsOfAnother(tt.key, tt.uid); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if c.ParentUID = ParentLeft; c.IsOfAnother(key, "u1") {
		t.Error("a parent that has left is taken for another Service")
	}
}

func TestResourceVersionsAreNumbersOfAnyLength(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"2", "1", true}, {"1", "1", false}, {"10", "9", true}, {"9", "10", false}, {"1", "", true}, {"", "1", false}} {
		if got := after(tt.a, tt.b); got != tt.want {
			t.Errorf("%q after %q: %v", tt.a, tt.b, got)
		}
	}
}
