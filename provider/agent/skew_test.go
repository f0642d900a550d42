package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

// The files of testdata are what an agent writes, and what one wrote before alive.json had a
// number. A difference is a new number, unless every agent that reads the old one reads it
// as before; see docs/reference/skew.md.

func TestStateIsAsItsFormatSays(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", stateFile))
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDisk(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	want := agenttest.SomeInputs(t)
	if err := d.save(want); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(d.dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(bytes.TrimSpace(golden)), string(written)); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(filepath.Join(d.dir, stateFile), golden, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := d.load()
	if err != nil {
		t.Fatal(err)
	}
	prefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(plan.Inputs{}, "Inventory", "Version", "Trial"), addresses, prefix); diff != "" || !document.Equal(got.Inventory, want.Inventory) {
		t.Error(diff)
	}
}

func TestASignOfLifeIsAsItsFormatSays(t *testing.T) {
	drained := time.Minute
	want := sign{
		Format: signFormat, Owner: thisOwner, BootID: "boot-1", Up: time.Hour, Wall: time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC),
		Drained: &drained, Lost: []netip.Addr{netip.MustParseAddr("10.1.0.1")},
	}
	numbered, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", aliveFile))
	if err != nil || !bytes.Equal(bytes.TrimSpace(golden), numbered) {
		t.Errorf("written is\n%s\nwant (%v)\n%s", numbered, err, golden)
	}
	for file, format := range map[string]int{aliveFile: 1, "alive-unnumbered.json": 0} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var got sign
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want.Format = format
		if d := cmp.Diff(want, got, addresses); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func TestFilesOfANewerAgentAreNotReadAndItIsSaid(t *testing.T) {
	d, err := openDisk(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.replace(stateFile, fmt.Appendf(nil, `{"Version":%d,"Inventory":{"in":"another form"}}`, stateVersion+1)); err != nil {
		t.Fatal(err)
	}
	if err := d.replace(aliveFile, []byte(`{"Format":2,"BootID":"`+d.bootID+`"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.load(); !errors.As(err, new(*inventory.NewerFormatError)) || !strings.Contains(err.Error(), stateFile) {
		t.Errorf("loading says %v", err)
	}
	if p := d.predecessor(); p.counts || p.follows {
		t.Errorf("it goes by %+v", p)
	}
}

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
	s.accept(t.Context(), source.Followed{Inventory: oneRack(t, inventory.ModeDirect)}, nil)
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
			inv := oneRack(t, inventory.ModeDirect)
			inv.Racks[0].Name = rack
			s.remembered = rememberedOf(plan.Inputs{Inventory: reparsed(t, inv)})
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

func reparsed(t *testing.T, inv *inventory.Inventory) *inventory.Inventory {
	t.Helper()
	out, problems := document.ParseAccepted(document.Document{Source: "test", Data: document.FormatAccepted(inv)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return out
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
	holds := func() (all []string) {
		for _, k := range []lb.ServiceKey{a, b} {
			for vip := range s.catalog.claims[k] {
				all = append(all, k.Name+" "+vip.String())
			}
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
