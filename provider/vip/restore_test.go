package vip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// restored has a journal know these objects, and learn that etcd was restored.
func (h *held) restored(version string, objects ...*networkingv1.IPAddress) {
	h.t.Helper()
	j := claim.NewJournal(h.log, h.claims, "")
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	j.Saw(0, 20)
	_ = j.Replace(all, version)
	h.released.last.Writes = 12
	j.Saw(20, 12)
	h.journal = j
}

// restoredFrom has a leader begin after a restore of what a journal knew before.
func (h *held) restoredFrom(objects ...*networkingv1.IPAddress) {
	h.t.Helper()
	h.restored("9", objects...)
	h.restoreFrom(h.t.Context(), []v1.Service{*h.svc[0], *h.svc[1]})
}

func claimAt(a, name string, uid types.UID) *networkingv1.IPAddress {
	return claim.New(netip.MustParseAddr(a), "public", lb.ServiceKey{Namespace: "d", Name: name}, string(uid))
}

func TestRestoreKeepsWhatIsRemembered(t *testing.T) {
	h := newHeld(t)
	h.restoredFrom(claimAt("192.0.2.1", "a", h.svc[0].UID), claimAt("192.0.2.2", "gone", "service gone"), claimAt("192.0.2.3", "a", "service a before"))
	if got := h.holders(netip.MustParseAddr("192.0.2.1")); len(got) != 1 || got[0].Service != h.key(0) {
		t.Errorf("192.0.2.1 is held by %v", got)
	}
	if _, err := h.client.NetworkingV1().IPAddresses().Get(t.Context(), "192.0.2.1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	var quarantined []string
	for _, r := range h.quarantined() {
		quarantined = append(quarantined, r.Addr.String()+" "+r.Owner.String())
	}
	if d := cmp.Diff([]string{"192.0.2.2 d/gone", "192.0.2.3 d/a"}, quarantined); d != "" {
		t.Error(d)
	}
	if _, again := h.journal.BeforeRestore(); again {
		t.Error("what the cluster has again would be claimed once more")
	}
}

func TestServiceThatHasAnotherVIPAfterARestoreKeepsThat(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	shared := claimAt("192.0.2.0", "a", h.svc[0].UID) // which the backup has of a alone
	shared.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	h.restoredFrom(claimAt("192.0.2.1", "a", h.svc[0].UID), shared)
	for i := range h.svc {
		if got := h.state.Holds(h.key(i)); !slices.Equal(got, []netip.Addr{h.addr}) {
			t.Errorf("%s holds %v", h.svc[i].Name, got)
		}
	}
	if o := h.object(h.addr); !o.HeldBy(h.key(0)) || !o.HeldBy(h.key(1)) {
		t.Errorf("its object says that it is held by %v", o.Holders)
	}
	if got := h.quarantined(); len(got) != 1 || got[0].Addr.String() != "192.0.2.1" {
		t.Errorf("%v is in quarantine", got)
	}
}

// TestALeaderThatLearnsOfARestoreClaimsAnewWhatTheBackupLacks before it ends, and serves nobody
// meanwhile.
func TestALeaderThatLearnsOfARestoreClaimsAnewWhatTheBackupLacks(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	released := netip.MustParseAddr("192.0.2.3")
	h.state.Quarantine([]ipam.Quarantined{{Addr: released, Owner: h.key(1), Until: noon.Add(time.Minute)}}, h.now())
	if err := h.client.NetworkingV1().IPAddresses().Delete(t.Context(), h.addr.String(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &h.ipAddress().UID, ResourceVersion: &h.ipAddress().ResourceVersion},
	}); err != nil {
		t.Fatal(err)
	}
	h.restored("", claimAt(h.addr.String(), "a", h.svc[0].UID))
	var happened []string
	h.ctx, h.stop = context.WithCancel(t.Context())
	h.options.Restart = func() { happened = append(happened, fmt.Sprintf("ends, serving: %v", h.ctx.Err() == nil)) }
	restored := make(chan struct{})
	close(restored)
	h.watchForRestore(t.Context(), restored)
	h.agree(h.key(0))
	if want := []string{"ends, serving: false"}; !slices.Equal(happened, want) {
		t.Errorf("it %v, want %v", happened, want)
	}
	stored, err := h.claims.ReadReleased(t.Context())
	if err != nil || len(stored.Quarantined) != 1 || stored.Quarantined[0].Addr != released {
		t.Errorf("in quarantine are %v, %v", stored.Quarantined, err)
	}
}

// TestWhatAnAuditFindsGoneAfterARestoreIsClaimedAnew: it may read the list of a restored cluster
// before anybody has read the count of writes. What it then takes for deleted was held all the
// same.
func TestWhatAnAuditFindsGoneAfterARestoreIsClaimedAnew(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	h.journal = h.follow()
	h.journal.Saw(0, 20)
	restored := h.journal.Restored()
	if _, err := h.claims.WriteReleased(t.Context(), claim.Released{Writes: 11}, nil); err != nil { // as the backup has it
		t.Fatal(err)
	}
	if err := h.client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", h.addr.String()); err != nil {
		t.Fatal(err)
	}
	h.ctx, h.stop = context.WithCancel(t.Context())
	h.options.Restart = func() {}
	_ = h.compare(t.Context())
	if err := h.journal.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !closed(restored) {
		t.Fatal("the restore was not noticed")
	}
	h.watchForRestore(t.Context(), restored)
	h.agree(h.key(0))
}

// TestAQuarantineOutlastsARestoreOfAShorterOne: the backup has the address in quarantine since an
// earlier release.
func TestAQuarantineOutlastsARestoreOfAShorterOne(t *testing.T) {
	h := newHeld(t)
	backup := []ipam.Quarantined{{Addr: h.addr, Owner: h.key(0), Until: noon.Add(time.Minute)}}
	if _, err := h.claims.WriteReleased(t.Context(), claim.Released{}, backup); err != nil {
		t.Fatal(err)
	}
	later := ipam.Quarantined{Addr: h.addr, Owner: h.key(1), Until: noon.Add(9 * time.Minute)}
	h.state.Quarantine([]ipam.Quarantined{later}, noon)
	if _, err := h.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.quarantined(); !slices.Equal(got, []ipam.Quarantined{later}) {
		t.Errorf("in quarantine is %v, want %v", got, later)
	}
}
