package vip

import (
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

var updateGolden = flag.Bool("update-golden", false, "write the files of testdata anew")

// The files of testdata are what this version stores. A difference is a new number of the
// format, unless all who read the old one read it as before; see docs/reference/skew.md.
func TestClaimsAndReleasedVIPsAreStoredAsTheirFormatsSay(t *testing.T) {
	h := newHeld(t)
	owner := lb.ServiceKey{Namespace: "d", Name: "a"}
	h.ledger.Rest(ipam.Rested{Addr: netip.MustParseAddr("192.0.2.3"), Owner: owner, Until: noon.Add(time.Minute)})
	data, _, _ := h.releasedData()
	for range 2 { // it is made, then changed
		if err := h.writeReleased(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	released, err := h.client.CoreV1().ConfigMaps(h.options.Namespace).Get(t.Context(), releasedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := newClaim(netip.MustParseAddr("192.0.2.1"), "public", owner, "service a")
	file := written{writtenFormat, "9", map[netip.Addr]remembered{netip.MustParseAddr("192.0.2.1"): {"public", []lb.ServiceKey{owner}, "service a"}}, nil, noon}
	for name, stored := range map[string]any{
		"ipaddress.json": map[string]any{"name": claim.Name, "labels": claim.Labels, "annotations": claim.Annotations, "spec": claim.Spec},
		"released.json":  map[string]any{"name": released.Name, "annotations": released.Annotations, "data": released.Data},
		recollectionName: file,
	} {
		text, err := json.MarshalIndent(stored, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *updateGolden {
			if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(string(want), string(text)+"\n"); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// writesOf counts what was written of a kind of object.
func (h *held) writesOf(resource string) (n int) {
	for _, a := range h.client.Actions() {
		if a.GetResource().Resource == resource && !slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
			n++
		}
	}
	return n
}

// TestNothingIsGivenOrTakenWhileANewerVersionSaysWhoHolds: of a claim, or of what was released.
func TestNothingIsGivenOrTakenWhileANewerVersionSaysWhoHolds(t *testing.T) {
	newer := map[string]string{inventory.AnnotationFormat: "2"}
	for name, store := range map[string]func(h *held) (setBack func()){
		"a claim": func(h *held) func() {
			o := newClaim(netip.MustParseAddr("192.0.2.1"), "public", h.key(0), h.svc[0].UID)
			o.Annotations[inventory.AnnotationFormat] = "2"
			tracked(h, func() error { return h.client.Tracker().Add(o) })
			return func() {
				o.Annotations[inventory.AnnotationFormat] = "1"
				tracked(h, func() error {
					return h.client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), o, "")
				})
			}
		},
		"what was released": func(h *held) func() {
			m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.options.Namespace, Name: releasedName, Annotations: newer}, Data: map[string]string{releasedKey: "{}"}}
			tracked(h, func() error { return h.client.Tracker().Add(m) })
			return func() {
				tracked(h, func() error {
					return h.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("configmaps"), m.Namespace, m.Name)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			setBack := store(h)
			if err := h.seed(t.Context()); !errors.As(err, new(*inventory.NewerFormatError)) {
				t.Fatalf("it begins all the same: %v", err)
			}
			for _, resource := range []string{"ipaddresses", "services", "configmaps"} {
				if n := h.writesOf(resource); n > 0 {
					t.Errorf("%d writes of %s", n, resource)
				}
			}
			setBack()
			if err := h.seed(t.Context()); err != nil {
				t.Errorf("it does not begin: %v", err)
			}
		})
	}
}

func tracked(h *held, f func() error) {
	h.t.Helper()
	if err := f(); err != nil {
		h.t.Fatal(err)
	}
}

// TestAClaimThatANewerVersionWritesIsKnownAsBefore to who leads and to who waits to lead.
func TestAClaimThatANewerVersionWritesIsKnownAsBefore(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	r := newTestRecollection(t, "")
	o, err := h.client.NetworkingV1().IPAddresses().Get(t.Context(), h.addr.String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.list("1", o)
	before := h.claims[h.addr]
	o = o.DeepCopy()
	o.ResourceVersion, o.Annotations[inventory.AnnotationFormat], o.Annotations[lb.SharedByAnnotation] = "900", "2", "in another form"
	for _, live := range []bool{false, true} {
		h.learn(h.addr, o, live)
	}
	_ = r.Update(o)
	if d := cmp.Diff(before, h.claims[h.addr], cmp.AllowUnexported(claim{})); d != "" || h.foreign[h.addr] {
		t.Errorf("foreign: %v, %s", h.foreign[h.addr], d)
	}
	if got := h.ledger.Holds(h.key(0)); !slices.Equal(got, []netip.Addr{h.addr}) {
		t.Errorf("its Service holds %v", got)
	}
	if len(r.claims[h.addr].Holders) != 1 || r.version != "900" {
		t.Errorf("remembered is %v as of %s", r.claims[h.addr], r.version)
	}
}

func TestAFileOfANewerVersionIsNoRecollection(t *testing.T) {
	for text, want := range map[string]int{
		`{"Version":"9","Claims":{"192.0.2.1":{"Pool":"public","Holders":[{"Namespace":"d","Name":"a"}]}}}`:            1, // before it had a number
		`{"Format":1,"Version":"9","Claims":{"192.0.2.1":{"Pool":"public","Holders":[{"Namespace":"d","Name":"a"}]}}}`: 1,
		`{"Format":2,"Version":"9","Claims":{"192.0.2.1":{"Pool":"public","Holders":[{"Namespace":"d","Name":"a"}]}}}`: 0,
		`{"Format":2,"Version":9,"Claims":[]}`: 0,
	} {
		r := newTestRecollection(t, filepath.Join(t.TempDir(), recollectionName))
		if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.load()
		if len(r.claims) != want {
			t.Errorf("%s: it knows %v", text, r.claims)
		}
	}
}
