package agent

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

var newerFormat = strconv.Itoa(document.ReadsFormat + 1)

// newer is the word about a ConfigMap that a newer version stored.
func newer() error {
	return inventory.CheckFormat("configmap plinth-accepted", map[string]string{inventory.AnnotationFormat: newerFormat}, document.ReadsFormat)
}

// TestAnAgentKeepsItsInventoryWhenANewerVersionStoresOne and goes on with all else.
func TestAnAgentKeepsItsInventoryWhenANewerVersionStoresOne(t *testing.T) {
	s, _ := followed(t, inventory.ModeDirect, rackNode("w1", "10.244.0.0/24", 1))
	was := until(t, s, "all is known", func(plan.Inputs) bool { return true }).Inventory
	s.accept(t.Context(), source.Followed{}, newer())
	in := until(t, s, "it plans on", func(plan.Inputs) bool { return true })
	if in.Inventory != was {
		t.Errorf("in force is %v", in.Inventory)
	}
	if u := s.unreadNow(); !strings.Contains(u.Inventory, "plinth-accepted") || u.Claims != 0 {
		t.Errorf("it says %+v", u)
	}
	s.accept(t.Context(), source.Followed{Inventory: agenttest.OneRack(t, inventory.ModeDirect)}, nil)
	if u := s.unreadNow(); u != (lb.Unread{}) {
		t.Errorf("it says %+v still", s.unreadNow())
	}
}

// TestAnAgentThatStartsWithANewerInventoryHasThatOfTheProcessBefore, if there was one of its rack.
func TestAnAgentThatStartsWithANewerInventoryHasThatOfTheProcessBefore(t *testing.T) {
	for rack, want := range map[string]bool{"r1": true, "elsewhere": false, "": false} {
		s := newSources(fake.NewClientset(), "kube-system", "w1", func() {})
		s.known = plan.Node{}
		s.known.Name, s.known.Rack = "w1", "r1"
		if rack != "" {
			inv := agenttest.OneRack(t, inventory.ModeDirect)
			inv.Racks[0].Name = rack
			s.remembered = rememberedOf(plan.Inputs{Inventory: agenttest.Reparsed(t, inv)})
		}
		s.accept(t.Context(), source.Followed{}, newer())
		if (s.inventory != nil) != want {
			t.Errorf("the process before was of rack %q: in force is %v", rack, s.inventory)
		}
		if missing := s.missing(); !want && !strings.Contains(missing, "configmap plinth-accepted is of format "+strconv.Quote(newerFormat)) {
			t.Errorf("it waits for %q", missing)
		}
	}
}

func claimObject(vip, service, format string) *networkingv1.IPAddress {
	o := &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "d", Name: service}}}
	o.ObjectMeta = metav1.ObjectMeta{Name: vip, Annotations: map[string]string{}}
	if format != "" {
		o.Annotations[inventory.AnnotationFormat] = format
	}
	return o
}

// TestWhatWasKnownOfAClaimHoldsWhenANewerVersionWritesIt: to this process, or the one before.
func TestWhatWasKnownOfAClaimHoldsWhenANewerVersionWritesIt(t *testing.T) {
	a, b := lb.ServiceKey{Namespace: "d", Name: "a"}, lb.ServiceKey{Namespace: "d", Name: "b"}
	s := newSources(fake.NewClientset(), "kube-system", "w1", func() {})
	s.remembered = rememberedOf(plan.Inputs{Offers: sorted.Of(advertise.Offer{Service: b, VIP: netip.MustParseAddr("192.0.2.2")})})
	add := func(objects ...*networkingv1.IPAddress) {
		t.Helper()
		for _, o := range objects {
			if err := s.claims.Add(o); err != nil {
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
	add(claimObject("192.0.2.1", "a", ""), claimObject("192.0.2.1", "b", "2"), claimObject("192.0.2.2", "a", "2"), claimObject("192.0.2.3", "a", "2"))
	if d := cmp.Diff([]string{"a 192.0.2.1", "b 192.0.2.2"}, holds()); d != "" {
		t.Error(d)
	}
	if u := s.unreadNow(); u.Inventory != "" || u.Claims != 3 || !strings.HasPrefix(u.Claim, "ipaddress 192.0.2.1 ") {
		t.Errorf("it says %+v", u)
	}
	add(claimObject("192.0.2.1", "b", "1"))
	if err := s.claims.Delete(claimObject("192.0.2.2", "a", "2")); err != nil {
		t.Fatal(err)
	}
	if err := s.claims.Delete(claimObject("192.0.2.3", "a", "2")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"b 192.0.2.1"}, holds()); d != "" {
		t.Error(d)
	}
	if u := s.unreadNow(); u != (lb.Unread{}) {
		t.Errorf("it says %+v still", s.unreadNow())
	}
}

// TestTheConditionSaysThatAnAgentIsOutdated and stays what it was: by its status, and by the
// reasons of one that is false, pods are kept away from a Node.
func TestTheConditionSaysThatAnAgentIsOutdated(t *testing.T) {
	for _, was := range []tally{{}, {Routes: 1, RoutesWanted: 2}, {SessionsWanted: 2, Sessions: 1}} {
		c := was.statement().condition()
		if now := was.statement().outdated(lb.Unread{}).condition(); now != c {
			t.Errorf("where all is read it is %+v", now)
		}
		now, reason := was.statement().outdated(lb.Unread{Inventory: newer().Error()}).condition(), c.Reason
		if c.Ready == corev1.ConditionTrue {
			reason = Outdated
		}
		if now.Ready != c.Ready || now.Reason != reason || !strings.Contains(now.Message, c.Message) || !strings.Contains(now.Message, "plinth-accepted") {
			t.Errorf("%+v becomes %+v", c, now)
		}
	}
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	a.sources.unread.inventory = newer()
	a.tellUnread()
	a.publish()
	if got := a.status.Load().Unread; len(got) != 1 {
		t.Errorf("the status says %q", got)
	}
}
