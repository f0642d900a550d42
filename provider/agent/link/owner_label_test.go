package link

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

func TestAMachineSaysWhatItAnswersForAndTakesBackWhatNobodyDoes(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		name, said string
		claims     bool
		owned      advertise.Owned
		want       []ownerWish
	}{
		{"it begins", "", true, advertise.Owned{Owner: "a"}, []ownerWish{{vip, true}}},
		{"it follows another", "b", true, advertise.Owned{Owner: "a"}, []ownerWish{{vip, true}}},
		{"it is said", "a", true, advertise.Owned{Owner: "a"}, nil},
		{"another is to say so", "a", false, advertise.Owned{Owner: "b", Reason: lb.NotOwner}, nil},
		{"it has just begun", "a", false, advertise.Owned{Reason: lb.NoMajority}, nil},
		{"there is no endpoint", "a", false, advertise.Owned{Reason: lb.NoEndpoint}, []ownerWish{{vip, false}}},
		{"no endpoint that its proxy knows of", "a", false, advertise.Owned{Reason: lb.EndpointsNotFollowed}, []ownerWish{{vip, false}}},
		{"there is no endpoint, and it never answered", "b", false, advertise.Owned{Reason: lb.NoEndpoint}, nil},
	} {
		r := Reached{self: "the machine", step: advertise.Step{Owners: []advertise.Owned{c.owned}}}
		r.step.Owners[0].VIP = vip
		if c.claims {
			r.claims = []netip.Addr{vip}
		}
		if got := ownerWishes("a", []Reached{r}, func(netip.Addr) string { return c.said }); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestClaimsSayWhoAnswersOnceForEachChange(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.1")
	client := fake.NewClientset(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: vip.String(), Labels: map[string]string{"other": "label"}}})
	failing, writes := true, 0
	client.PrependReactor("patch", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		return failing, nil, errors.New("the API server is away")
	})
	now := time.Unix(0, 0)
	w := NewOwners(slog.Default(), client, "a")
	w.clock = func() time.Time { return now }
	said := func() string {
		t.Helper()
		o, err := client.NetworkingV1().IPAddresses().Get(t.Context(), vip.String(), metav1.GetOptions{})
		if err != nil || o.Labels["other"] != "label" {
			t.Fatalf("%v, labels %v", err, o.Labels)
		}
		return o.Labels[lb.OwnerLabel]
	}
	answers, over := []ownerWish{{vip, true}}, []ownerWish{{vip, false}}
	if w.write(t.Context(), answers) || said() != "" {
		t.Fatal("a write that fails is said to have worked")
	}
	failing = false
	for range 3 { // until the watch shows it
		if !w.write(t.Context(), answers) || said() != "a" || writes != 2 {
			t.Fatalf("it says %q after %d writes", said(), writes)
		}
	}
	if !w.write(t.Context(), over) || said() != "" {
		t.Fatalf("it says %q that nobody answers", said())
	}
	if !w.write(t.Context(), answers) || said() != "a" {
		t.Fatalf("it says %q that it answers again", said())
	}
	if writes = 0; !w.write(t.Context(), []ownerWish{{netip.MustParseAddr("192.0.2.9"), true}}) || writes != 1 {
		t.Error("a VIP that was released is tried again and again")
	}
}
