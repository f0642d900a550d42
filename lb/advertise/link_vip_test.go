package advertise

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// TestTheOwnerIsAbleAndWithoutOneNobodyIs, and whoever is able keeps a VIP that it has. In what order machines and endpoints are
// known changes nothing.
func TestTheOwnerIsAbleAndWithoutOneNobodyIs(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID)
		v := LinkVIP{VIP: netip.MustParseAddr("192.168.1.200"), Homes: some.Draw(t, "homes"), Served: true, Local: rapid.Bool().Draw(t, "local"), At: some.Draw(t, "at")}
		if rapid.Bool().Draw(t, "limited") {
			v.May = append([]string{}, some.Draw(t, "may")...)
		}
		s := Segment{Self: "a"}
		for _, n := range names {
			s.Machines = append(s.Machines, Neighbor{Name: n, Active: rapid.Bool().Draw(t, "active"), Standing: rapid.SampledFrom([]Standing{Down, Up, Leaving}).Draw(t, "standing")})
		}
		able := s.Able(v)
		owner, _ := s.Owner(v, "")
		if (owner == "") != (len(able) == 0) || owner != "" && !slices.Contains(able, owner) {
			t.Fatalf("%q owns, and able are %q", owner, able)
		}
		in, of := s, v
		in.Machines = rapid.Permutation(s.Machines).Draw(t, "machines in another order")
		of.At = rapid.Permutation(v.At).Draw(t, "endpoints in another order")
		if len(v.May) > 0 { // an empty list is another thing than none
			of.May = rapid.Permutation(v.May).Draw(t, "limits in another order")
		}
		for _, incumbent := range append([]string{""}, names...) {
			owner, none := s.Owner(v, incumbent)
			if again, noneAgain := in.Owner(of, incumbent); again != owner || noneAgain != none {
				t.Fatalf("%q owns after %q, or %q; in another order %q, or %q", owner, incumbent, none, again, noneAgain)
			}
		}
		for _, n := range able {
			if kept, _ := s.Owner(v, n); kept != n {
				t.Fatalf("%s is able and has it, and %s owns it", n, kept)
			}
		}
	})
}

func TestVIPOnSaysWhyNobodyAnswers(t *testing.T) {
	l := inventory.Link{Machines: []inventory.LinkMachine{{Name: "a", Rack: "r1", State: inventory.StateActive}, {Name: "b", Rack: "r2", State: inventory.StateActive}}}
	offer := func(labels map[string]string) Offer {
		return Offer{VIP: netip.MustParseAddr("192.168.1.200"), Endpoints: Endpoints{Any: 1}, Labels: LabelsOf(labels, []string{"tier"})}
	}
	gold, _ := document.Parse(document.Document{Source: "x", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: x}\nspec: {pools: [{name: a, addresses: [192.168.1.200], advertise: [{serviceSelector: {matchLabels: {tier: gold}}, racks: [r2]}]}], racks: [{name: r2}]}\n")})
	if gold == nil {
		t.Fatal("the inventory is not read")
	}
	pool := gold.Pools[0]
	for _, c := range []struct {
		what   string
		state  inventory.PoolState
		offers []Offer
		may    []string
		want   lb.Reason
	}{
		{"selected", inventory.PoolActive, []Offer{offer(map[string]string{"tier": "gold"})}, []string{"b"}, ""},
		{"not selected", inventory.PoolActive, []Offer{offer(nil)}, nil, lb.PoolLimitedToServices},
		{"one of two that share it is", inventory.PoolActive, []Offer{offer(nil), offer(map[string]string{"tier": "gold"})}, []string{"b"}, ""},
		{"disabled", inventory.PoolDisabled, []Offer{offer(map[string]string{"tier": "gold"})}, nil, lb.PoolIsDisabled},
	} {
		pool.State = c.state
		v, refusal := VIPOn(l, &pool, c.offers)
		if refusal != c.want || !slices.Equal(v.May, c.may) {
			t.Errorf("%s: %q, %+v", c.what, refusal, v)
		}
	}
}
