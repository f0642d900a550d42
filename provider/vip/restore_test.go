package vip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// clusterCounts has ConfigMap plinth-released say that it was written so often.
func (h *held) clusterCounts(writes int64) {
	h.t.Helper()
	_ = h.client.CoreV1().ConfigMaps(h.options.Namespace).Delete(h.t.Context(), claim.ReleasedName, metav1.DeleteOptions{})
	if _, err := h.claims.WriteReleased(h.t.Context(), claim.Released{Writes: writes - 1}, nil); err != nil {
		h.t.Fatal(err)
	}
}

// checks has the journal read the count of writes, and returns what was known before a restore.
func (h *held) checks() *claim.Memory {
	h.t.Helper()
	if err := h.journal.Check(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return h.journal.BeforeRestore()
}

// restoredFrom has a leader begin after a restore of what the process before wrote down.
func (h *held) restoredFrom(objects ...*networkingv1.IPAddress) (file string) {
	h.t.Helper()
	known := map[netip.Addr]claim.Entry{}
	for _, obj := range objects {
		o, _ := claim.Read(obj)
		known[o.Addr] = claim.Entry{Pool: o.Pool, Holders: o.Holders, UID: o.ParentUID}
	}
	file = h.fileSaying(20, known)
	h.clusterCounts(12)
	h.leads(file)
	return file
}

// leads has a process begin to lead that knows nothing but what is in a file.
func (h *held) leads(file string) {
	h.t.Helper()
	h.remembers(file)
	if h.stop == nil {
		h.ctx, h.stop, h.options.Restart = h.t.Context(), func() {}, func() {}
	}
	*h.state = *ipam.NewState()
	h.released = &releasedKeeper{balancer: h.Controller}
	if err := h.load(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	if err := h.setPools(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// plain has the Services ask for any address.
func (h *held) plain() {
	for _, svc := range h.svc {
		svc.Annotations = nil
		h.edited(svc)
	}
}

// vanishes takes the claim out of the cluster, without that a watch tells.
func (h *held) vanishes() {
	h.t.Helper()
	if err := h.client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", h.addr.String()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *held) quarantinedFor() (all []string) {
	for _, r := range h.quarantined() {
		all = append(all, r.Addr.String()+" "+r.Owner.String())
	}
	return all
}

func claimAt(a, name string, uid types.UID) *networkingv1.IPAddress {
	return claim.New(netip.MustParseAddr(a), "public", lb.ServiceKey{Namespace: "d", Name: name}, string(uid))
}

func TestRestoreKeepsWhatIsRemembered(t *testing.T) {
	h := newHeld(t)
	h.restoredFrom(claimAt("192.0.2.1", "a", h.svc[0].UID), claimAt("192.0.2.2", "gone", "service gone"), claimAt("192.0.2.3", "b", "service b before"))
	if got := h.holders(netip.MustParseAddr("192.0.2.1")); len(got) != 1 || got[0].Service != h.key(0) {
		t.Errorf("192.0.2.1 is held by %v", got)
	}
	if got := h.queued(); !slices.Equal(got, []string{"d/a"}) {
		t.Errorf("looked at are %v, who have to claim something", got)
	}
	if d := cmp.Diff([]string{"192.0.2.2 d/gone", "192.0.2.3 d/b"}, h.quarantinedFor()); d != "" {
		t.Error(d)
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
		h.settled(i)
	}
	h.agree(h.key(0), h.key(1))
	if got := h.quarantined(); len(got) != 1 || got[0].Addr.String() != "192.0.2.1" {
		t.Errorf("%v is in quarantine", got)
	}
}

// TestALeaderThatLearnsOfARestoreEnds, writes nothing to the cluster, and leaves its successor all
// that it knew.
func TestALeaderThatLearnsOfARestoreEnds(t *testing.T) {
	h := newHeld(t)
	file := filepath.Join(t.TempDir(), "claims.json")
	h.clusterCounts(20)
	h.leads(file)
	h.settled(0)
	h.checks()
	h.vanishes()
	h.clusterCounts(12)
	ended := make(chan bool, 10)
	h.ctx, h.stop = context.WithCancel(t.Context())
	h.options.Restart = func() { ended <- h.ctx.Err() == nil }
	h.checks()
	select {
	case serving := <-ended:
		if serving {
			t.Error("it ends while it serves Services")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	if now, err := h.claims.ReadReleased(t.Context()); err != nil || now.Writes != 12 {
		t.Errorf("%d writes are counted, %v", now.Writes, err)
	}
	h.leads(file)
	if got := h.state.Holds(h.key(0)); !slices.Equal(got, []netip.Addr{h.addr}) {
		t.Errorf("to the next one it holds %v", got)
	}
	h.settled(0)
	h.agree(h.key(0))
}

// TestWhoeverLeadsNextRepairsARestoreThatIsNotRepaired, wherever the one before died, and nobody
// who leads after that.
func TestWhoeverLeadsNextRepairsARestoreThatIsNotRepaired(t *testing.T) {
	first, second, gone := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	for done := range 6 {
		t.Run(fmt.Sprint("after step ", done), func(t *testing.T) {
			h := newHeld(t)
			h.plain()
			file := h.restoredFrom(claimAt(first.String(), "a", h.svc[0].UID), claimAt(second.String(), "b", h.svc[1].UID), claimAt(gone.String(), "gone", "service gone"))
			assign := func(i int) {
				if _, err := h.assign(t.Context(), h.svc[i]); err != nil {
					t.Fatal(err)
				}
			}
			steps := []func(){
				func() { h.departed() }, // what is to be in quarantine is written down
				func() { assign(0) },
				func() { assign(1) },
				func() { h.departed() }, // it is found to be repaired
				func() { h.departed() }, // and that is said
			}
			for _, step := range steps[:done] {
				step()
			}
			if before := h.checks(); (before == nil) != (done == len(steps)) {
				t.Errorf("it is taken for repaired: %v", before == nil)
			}

			h.leads(file)
			if before := h.checks(); (before == nil) != (done == len(steps)) {
				t.Errorf("the next one takes it for repaired: %v", before == nil)
			}
			for i, want := range []netip.Addr{first, second} {
				if d, err := h.assign(t.Context(), h.svc[i]); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{want}) {
					t.Errorf("%s gets %v, %v; want %v", h.svc[i].Name, d, err, want)
				}
			}
			if d := cmp.Diff([]string{"192.0.2.3 d/gone"}, h.quarantinedFor()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestARestoreIsNotRepairedWhileThereIsNoRoomForWhatIsInQuarantine: of those addresses nobody
// would know.
func TestARestoreIsNotRepairedWhileThereIsNoRoomForWhatIsInQuarantine(t *testing.T) {
	h := newHeldOf(t, "10.0.0.0/16")
	long := strings.Repeat("n", 60)
	var gone []*networkingv1.IPAddress
	for i, a := 0, netip.MustParseAddr("10.0.0.0"); i < 10000; i, a = i+1, a.Next() {
		gone = append(gone, claim.New(a, "public", lb.ServiceKey{Namespace: long, Name: fmt.Sprint(long, i)}, "u"))
	}
	h.restoredFrom(gone...)
	now := noon
	h.now = func() time.Time { return now }
	for _, step := range []struct {
		now            time.Time
		full, repaired bool
	}{{noon, true, false}, {noon, true, false}, {noon.Add(ipam.QuarantineTime), false, false}, {noon.Add(ipam.QuarantineTime), false, true}} {
		now = step.now
		full, err := h.released.write(t.Context())
		if repaired := h.checks() == nil; err != nil || full != step.full || repaired != step.repaired {
			t.Fatalf("at %v: full %v, repaired %v, %v", now, full, repaired, err)
		}
	}
}

// TestARestoreIsRepairedForAProcessThatCountedFurther: a leader is read every ten seconds only.
func TestARestoreIsRepairedForAProcessThatCountedFurther(t *testing.T) {
	h := newHeld(t)
	h.clusterCounts(25)
	other := claim.NewJournal(h.log, h.claims, claim.NewMirror(h.log, h.claims), "")
	check := func() *claim.Memory {
		t.Helper()
		if err := other.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		return other.BeforeRestore()
	}
	check()
	h.restoredFrom(claimAt("192.0.2.2", "gone", "service gone")) // which knows of 20
	if check() == nil {
		t.Fatal("the other has not noticed it")
	}
	h.departed()
	h.departed()
	if check() != nil {
		t.Error("the other does not know that it is repaired")
	}
}

// TestWhatIsFoundGoneAfterARestoreIsRememberedFirst: somebody may read the list, or one claim, of a
// restored cluster before anybody has read the count of writes.
func TestWhatIsFoundGoneAfterARestoreIsRememberedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		restored func(h *held) // what the backup has
		finds    func(h *held) error
	}{
		"an audit finds no claim":        {(*held).vanishes, func(h *held) error { return h.compare(h.t.Context()) }},
		"a worker finds no claim":        {(*held).vanishes, func(h *held) error { return h.refresh(h.t.Context(), h.addr) }},
		"a worker finds fewer holders":   {(*held).loses, func(h *held) error { return h.refresh(h.t.Context(), h.addr) }},
		"a write finds an earlier claim": {(*held).loses, func(h *held) error { return h.clearAndRelease(h.t.Context(), h.key(1), string(h.svc[1].UID)) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			h.follow()
			h.settled(0)
			h.settled(1)
			h.clusterCounts(20)
			h.checks()
			c.restored(h)
			h.clusterCounts(11)
			if err := c.finds(h); err != nil {
				t.Fatal(err)
			}
			before := h.checks()
			if before == nil {
				t.Fatal("the restore is not noticed")
			}
			if got, want := before.Claims[h.addr].Holders, []lb.ServiceKey{h.key(0), h.key(1)}; !slices.Equal(got, want) {
				t.Errorf("remembered are %v, want %v", got, want)
			}
		})
	}
}

// loses takes the second holder out of the claim, as one in a backup does not have it.
func (h *held) loses() {
	h.t.Helper()
	o := h.ipAddress()
	o.ResourceVersion, o.Annotations[lb.SharedByAnnotation] = "1", "d/a"
	if err := h.client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), o, ""); err != nil {
		h.t.Fatal(err)
	}
}

// TestALeaderKnowsItsOwnWritesAtOnce: a backup of a moment ago has one less.
func TestALeaderKnowsItsOwnWritesAtOnce(t *testing.T) {
	h := newHeld(t)
	h.clusterCounts(20)
	h.leads("")
	h.departed()
	h.clusterCounts(20)
	if h.checks() == nil {
		t.Error("the restore is not noticed")
	}
}

// TestACountGoesOnWhereSomebodyDeletesTheConfigMap: that is no restore.
func TestACountGoesOnWhereSomebodyDeletesTheConfigMap(t *testing.T) {
	for _, successor := range []bool{false, true} {
		h := newHeld(t)
		h.clusterCounts(20)
		h.checks()
		h.departed()
		if err := h.client.CoreV1().ConfigMaps(h.options.Namespace).Delete(t.Context(), claim.ReleasedName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if successor { // which waited to lead
			h.released = &releasedKeeper{balancer: h.Controller}
			if _, err := h.released.read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.departed()
		if now, err := h.claims.ReadReleased(t.Context()); err != nil || now.Writes != 22 || h.checks() != nil {
			t.Errorf("successor %v: %d writes are counted, %v; taken for a restore: %v", successor, now.Writes, err, h.checks() != nil)
		}
	}
}

// TestARestoreIsPendingHoweverOftenTheConfigMapIsWritten has a backup of one write ago.
func TestARestoreIsPendingHoweverOftenTheConfigMapIsWritten(t *testing.T) {
	h := newHeld(t)
	h.plain()
	h.clusterCounts(12)
	o, _ := claim.Read(claimAt(h.addr.String(), "a", h.svc[0].UID))
	h.leads(h.fileSaying(13, map[netip.Addr]claim.Entry{h.addr: {Pool: o.Pool, Holders: o.Holders, UID: o.ParentUID}}))
	for range 3 {
		h.departed()
	}
	if h.checks() == nil {
		t.Error("it is taken for repaired, and nobody has claimed the VIP anew")
	}
	if d, err := h.assign(t.Context(), h.svc[1]); err != nil || slices.Contains(d.Addrs(), h.addr) {
		t.Errorf("another Service gets %v, %v", d, err)
	}
	h.settled(0)
	h.departed()
	h.departed()
	if h.checks() != nil {
		t.Error("it is not taken for repaired")
	}
}

// TestALeaderThatReadsASmallerCountWhenItWritesLearnsOfARestore has a backup of one write ago.
func TestALeaderThatReadsASmallerCountWhenItWritesLearnsOfARestore(t *testing.T) {
	h := newHeld(t)
	h.clusterCounts(20)
	h.leads("")
	h.departed()
	h.clusterCounts(20)
	conflicts := 1
	h.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(v1.Resource("configmaps"), claim.ReleasedName, errors.New("it was restored"))
	})
	h.departed()
	if h.checks() == nil {
		t.Error("it has written over the smaller count")
	}
}

// TestACountThatIsNoneIsNoRestore has somebody edit the ConfigMap.
func TestACountThatIsNoneIsNoRestore(t *testing.T) {
	for _, text := range []string{"", "many", "-1", "9223372036854775807"} {
		h := newHeld(t)
		h.clusterCounts(20)
		h.leads("")
		h.departed()
		maps := h.client.CoreV1().ConfigMaps(h.options.Namespace)
		patch := []byte(`{"data":{"writes":"` + text + `"}}`)
		if _, err := maps.Patch(t.Context(), claim.ReleasedName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if h.checks() != nil {
			t.Errorf("%q is taken for a restore", text)
		}
		h.departed()
		if n := h.journal.Writes(); n != 22 || h.checks() != nil {
			t.Errorf("after %q the count goes on at %d, want 22", text, n)
		}
	}
}

// fileSaying is a file that an earlier process wrote.
func (h *held) fileSaying(writes int64, claims map[netip.Addr]claim.Entry) string {
	h.t.Helper()
	text, err := json.Marshal(claim.Memory{Format: 1, Writes: writes, Claims: claims})
	if err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(h.t.TempDir(), "claims.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return file
}
