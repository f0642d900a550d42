package claim

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// The files of testdata are what this version stores. A difference is a new number of the
// format, unless all who read the old one read it as before; see docs/reference/skew.md.
func TestClaimsAndReleasedVIPsAreStoredAsTheirFormatsSay(t *testing.T) {
	c := Client{Kube: fake.NewClientset(), Namespace: "kube-system"}
	owner := lb.ServiceKey{Namespace: "d", Name: "a"}
	quarantined := []ipam.Quarantined{{Addr: netip.MustParseAddr("192.0.2.3"), Owner: owner, Until: noon.Add(time.Minute)}}
	var last Released
	for range 2 { // it is made, then changed
		var err error
		if last, err = c.WriteReleased(t.Context(), last, quarantined); err != nil {
			t.Fatal(err)
		}
		if last, err = c.ReadReleased(t.Context()); err != nil || !cmp.Equal(last.Quarantined, quarantined, cmp.Comparer(func(x, y netip.Addr) bool { return x == y })) {
			t.Fatalf("%+v, %v", last, err)
		}
	}
	released, err := c.Kube.CoreV1().ConfigMaps(c.Namespace).Get(t.Context(), ReleasedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := New(netip.MustParseAddr("192.0.2.1"), "public", owner, "service a")
	for name, stored := range map[string]any{
		"ipaddress.json": map[string]any{"name": claim.Name, "labels": claim.Labels, "annotations": claim.Annotations, "spec": claim.Spec},
		"released.json":  map[string]any{"name": released.Name, "annotations": released.Annotations, "data": released.Data},
		"claims.json":    Memory{fileFormat, 9, map[netip.Addr]Entry{netip.MustParseAddr("192.0.2.1"): {"public", []lb.ServiceKey{owner}, "service a"}}},
	} {
		text, err := json.MarshalIndent(stored, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Hold(t, filepath.Join("testdata", name), append(text, '\n'))
	}
}

func TestWhatThereIsNoRoomForIsNotWritten(t *testing.T) {
	var all []ipam.Quarantined
	for a := netip.MustParseAddr("10.0.0.0"); len(all) < 20000; a = a.Next() {
		all = append(all, ipam.Quarantined{Addr: a, Owner: lb.ServiceKey{Namespace: "d", Name: "a"}, Until: noon})
	}
	text, room := printReleased(all)
	var read []released
	if err := json.Unmarshal([]byte(text), &read); err != nil || len(read) != room || len(text) > releasedMost || len(text) < releasedMost-200 {
		t.Errorf("%d of %d in %d bytes: %v", len(read), room, len(text), err)
	}
	if text, room := printReleased(nil); text != "[]" || room != 0 {
		t.Errorf("nothing is %q", text)
	}
}
