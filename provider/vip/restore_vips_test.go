package vip

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb"
)

func TestRestoreIsToldFromAWatchThatIsLate(t *testing.T) {
	type versions = map[string]string
	for _, tt := range []struct {
		name        string
		known, live versions
		newest      string
		differs     versions
		proof       bool
	}{
		{"all is known as it is", versions{"d/a": "5"}, versions{"d/a": "5"}, "9", versions{}, false},
		{"a change has not been seen yet", versions{"d/a": "5"}, versions{"d/a": "7"}, "9", versions{"d/a": "5 7"}, false},
		{"a new one has not been seen yet", versions{}, versions{"d/a": "7"}, "9", versions{"d/a": " 7"}, false},
		{"one that went has not been seen to go, or never was", versions{"d/a": "5"}, versions{}, "9", versions{"d/a": "5 "}, false},
		{"one is newer than it is", versions{"d/a": "10"}, versions{"d/a": "9"}, "11", nil, true},
		{"one is newer than all", versions{"d/a": "10"}, versions{}, "9", nil, true},
	} {
		differs, proof := differ(tt.known, tt.live, tt.newest)
		if d := cmp.Diff(tt.differs, differs); d != "" || proof != tt.proof {
			t.Errorf("%s: proof %v, %s", tt.name, proof, d)
		}
	}
}

func TestOnlyWhatDiffersInTheSameWayForLongIsCounted(t *testing.T) {
	got := common(map[string]string{"a": "1 2", "b": "1 2", "c": "1 "}, map[string]string{"a": "1 2", "b": "2 2", "d": "1 "})
	if d := cmp.Diff(map[string]string{"a": "1 2"}, got); d != "" {
		t.Error(d)
	}
}

func TestObjectThatHoldsNoVIPIsNotCompared(t *testing.T) {
	object := func(name, resource string) *networkingv1.IPAddress {
		return &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: resource, Namespace: "prod", Name: "web"}},
		}
	}
	b := New(Options{})
	b.cluster.Client = fake.NewClientset(object("203.0.113.1", "services"), object("203.0.113.2", "gateways"))
	got, _, err := b.liveVersions(t.Context())
	if want := map[string]string{"203.0.113.1": "7"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v: what is not learned would differ for ever", got, err, want)
	}
}
