package watch

import (
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

// TestAnAgentKeepsItsInventoryWhenANewerVersionStoresOne and goes on with all else.
func TestAnAgentKeepsItsInventoryWhenANewerVersionStoresOne(t *testing.T) {
	s, _ := followed(t, inventory.ModeDirect, agenttest.RackNode("w1", "10.244.0.0/24", 1))
	was := until(t, s, "all is known", func(plan.Inputs) bool { return true }).Inventory
	s.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	in := until(t, s, "it plans on", func(plan.Inputs) bool { return true })
	if in.Inventory != was {
		t.Errorf("in force is %v", in.Inventory)
	}
	if u := s.Unread(); !strings.Contains(u.Inventory, "plinth-accepted") || u.Claims != 0 {
		t.Errorf("it says %+v", u)
	}
	s.Accept(t.Context(), source.Followed{Inventory: agenttest.OneRack(t, inventory.ModeDirect)}, nil)
	if u := s.Unread(); u != (lb.Unread{}) {
		t.Errorf("it says %+v still", s.Unread())
	}
}

// TestAnAgentThatStartsWithANewerInventoryHasThatOfTheProcessBefore, if there was one of its rack.
func TestAnAgentThatStartsWithANewerInventoryHasThatOfTheProcessBefore(t *testing.T) {
	for rack, want := range map[string]bool{"r1": true, "elsewhere": false, "": false} {
		s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() {})
		s.known = plan.Node{}
		s.known.Name, s.known.Rack = "w1", "r1"
		if rack != "" {
			inv := agenttest.OneRack(t, inventory.ModeDirect)
			inv.Racks[0].Name = rack
			s.restored = restoredOf(plan.Inputs{Inventory: agenttest.Reparsed(t, inv)})
		}
		s.Accept(t.Context(), source.Followed{}, agenttest.Newer())
		if (s.accepted.inventory != nil) != want {
			t.Errorf("the process before was of rack %q: in force is %v", rack, s.accepted.inventory)
		}
		if missing := s.missing(); !want && !strings.Contains(missing, "configmap plinth-accepted is of format "+strconv.Quote(agenttest.NewerFormat)) {
			t.Errorf("it waits for %q", missing)
		}
	}
}

// TestWhatWasKnownOfAClaimHoldsWhenANewerVersionWritesIt: to this process, or the one before.
func TestWhatWasKnownOfAClaimHoldsWhenANewerVersionWritesIt(t *testing.T) {
	a, b := lb.ServiceKey{Namespace: "d", Name: "a"}, lb.ServiceKey{Namespace: "d", Name: "b"}
	s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() {})
	s.restored = restoredOf(plan.Inputs{Offers: sorted.Of(advertise.Offer{Service: b, VIP: netip.MustParseAddr("192.0.2.2")})})
	add := func(objects ...*networkingv1.IPAddress) {
		t.Helper()
		for _, o := range objects {
			if err := s.caches.claims.Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range []lb.ServiceKey{a, b} {
		s.index.ServiceChanged("", nil, &offers.Service{Key: k, Ours: true})
	}
	holds := func() (all []string) {
		for o := range s.index.All().All() {
			all = append(all, o.Service.Name+" "+o.VIP.String())
		}
		slices.Sort(all)
		return all
	}
	add(agenttest.ClaimObject("192.0.2.1", "a", ""), agenttest.ClaimObject("192.0.2.1", "b", "2"), agenttest.ClaimObject("192.0.2.2", "a", "2"), agenttest.ClaimObject("192.0.2.3", "a", "2"))
	if d := cmp.Diff([]string{"a 192.0.2.1", "b 192.0.2.2"}, holds()); d != "" {
		t.Error(d)
	}
	if u := s.Unread(); u.Inventory != "" || u.Claims != 3 || !strings.HasPrefix(u.Claim, "ipaddress 192.0.2.1 ") {
		t.Errorf("it says %+v", u)
	}
	add(agenttest.ClaimObject("192.0.2.1", "b", "1"))
	if err := s.caches.claims.Delete(agenttest.ClaimObject("192.0.2.2", "a", "2")); err != nil {
		t.Fatal(err)
	}
	if err := s.caches.claims.Delete(agenttest.ClaimObject("192.0.2.3", "a", "2")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"b 192.0.2.1"}, holds()); d != "" {
		t.Error(d)
	}
	if u := s.Unread(); u != (lb.Unread{}) {
		t.Errorf("it says %+v still", s.Unread())
	}
}
