package vip

import (
	"log/slog"
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
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
)

// claimAt is the object by which d/NAME, whose UID is "service NAME", holds a.
func claimAt(a, name, version string) *networkingv1.IPAddress {
	o := newClaim(netip.MustParseAddr(a), "public", lb.ServiceKey{Namespace: "d", Name: name}, types.UID("service "+name))
	o.ResourceVersion = version
	return o
}

func newTestRecollection(t *testing.T, file string) *recollection {
	r := newRecollection(slog.New(slog.NewTextHandler(t.Output(), nil)), file)
	r.now = func() time.Time { return noon }
	return r
}

// list has the recollection take in a list of that version.
func (r *recollection) list(version string, objects ...*networkingv1.IPAddress) {
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	r.asks()
	_ = r.Replace(all, version)
}

// recalls returns the addresses that are recalled when the cluster is at a version.
func (r *recollection) recalls(now string) (all []string) {
	before, _ := r.recall(r.known(), now)
	for a := range before {
		all = append(all, a.String())
	}
	slices.Sort(all)
	return all
}

func TestOnlyARestoreBringsBackWhatIsRemembered(t *testing.T) {
	one, two := claimAt("192.0.2.1", "a", "5"), claimAt("192.0.2.2", "b", "9")
	for name, c := range map[string]struct {
		happens func(r *recollection)
		now     string
		want    []string
	}{
		"nothing":                     {func(r *recollection) {}, "10", nil},
		"the list is older":           {func(r *recollection) { r.list("7", one) }, "8", []string{"192.0.2.1", "192.0.2.2"}},
		"the watch hangs":             {func(r *recollection) {}, "8", []string{"192.0.2.1", "192.0.2.2"}},
		"time went on, then restored": {func(r *recollection) { _ = r.Bookmark("20") }, "15", []string{"192.0.2.1", "192.0.2.2"}},
		"one was deleted":             {func(r *recollection) { gone := two.DeepCopy(); gone.ResourceVersion = "11"; _ = r.Delete(gone) }, "12", nil},
		"one was deleted, then restored": {
			func(r *recollection) { gone := two.DeepCopy(); gone.ResourceVersion = "11"; _ = r.Delete(gone) }, "10", []string{"192.0.2.1"},
		},
		"one is not in the next list":  {func(r *recollection) { r.list("12", one) }, "12", nil},
		"restored and known elsewhere": {func(r *recollection) { r.list("7", one); r.forget() }, "8", nil},
		"restored long ago": {
			func(r *recollection) {
				r.list("7", one)
				r.now = func() time.Time { return noon.Add(11 * time.Minute) }
			}, "8", nil,
		},
		"restored twice":                {func(r *recollection) { r.list("7", one); r.list("6") }, "7", []string{"192.0.2.1", "192.0.2.2"}},
		"another program's object":      {func(r *recollection) { o := claimAt("192.0.2.2", "b", "11"); o.Labels = nil; _ = r.Update(o) }, "10", []string{"192.0.2.1"}},
		"versions that cannot be told":  {func(r *recollection) {}, "unknown", nil},
		"the cluster asked for was new": {func(r *recollection) { r.asks(); _ = r.Bookmark("20"); _ = r.Replace([]any{one}, "15") }, "20", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestRecollection(t, "")
			r.list("8", one)
			_ = r.Add(two)
			c.happens(r)
			if d := cmp.Diff(c.want, r.recalls(c.now)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRecollectionOutlivesItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made", recollectionName)
	r := newTestRecollection(t, file)
	shared := claimAt("2001:db8::1", "b", "8")
	shared.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	r.list("8", claimAt("192.0.2.1", "a", "5"), shared)
	text, last := r.due(edition{at: noon})
	if err := r.write(text); err != nil {
		t.Fatal(err)
	}
	_ = r.Bookmark("9")
	if text, _ := r.due(last); text != nil {
		t.Error("written again though only a moment has gone by")
	}
	r.silent = true
	if text, _ := r.due(last); text == nil {
		t.Error("not written though it may have been the last moment")
	}

	next := newTestRecollection(t, file)
	next.load()
	next.list("7") // restored meanwhile
	text, _ = next.due(edition{})
	if err := next.write(text); err != nil {
		t.Fatal(err)
	}
	third := newTestRecollection(t, file)
	third.load()
	got, restored := third.recall(third.known(), "7")
	want := map[netip.Addr]remembered{
		netip.MustParseAddr("192.0.2.1"):   {"public", []lb.ServiceKey{{Namespace: "d", Name: "a"}}, "service a"},
		netip.MustParseAddr("2001:db8::1"): {"public", []lb.ServiceKey{{Namespace: "d", Name: "b"}, {Namespace: "d", Name: "a"}}, "service b"},
	}
	if d := cmp.Diff(want, got, sameAddr); d != "" || !restored {
		t.Error("restored:", restored, d)
	}
}

func TestFileThatCannotBeReadIsNoRecollection(t *testing.T) {
	for name, make := range map[string]func(file string) error{
		"none": func(string) error { return nil },
		"cut off": func(f string) error {
			return os.WriteFile(f, []byte(`{"Version":"9","Claims":{"192.0.2.1":{"Pool`), 0o600)
		},
		"empty":     func(f string) error { return os.WriteFile(f, nil, 0o600) },
		"null":      func(f string) error { return os.WriteFile(f, []byte("null"), 0o600) },
		"a folder":  func(f string) error { return os.Mkdir(f, 0o700) },
		"no claims": func(f string) error { return os.WriteFile(f, []byte(`{"Version":"9"}`), 0o600) },
	} {
		r := newTestRecollection(t, filepath.Join(t.TempDir(), recollectionName))
		if err := make(r.file); err != nil {
			t.Fatal(err)
		}
		r.load()
		r.list("8", claimAt("192.0.2.1", "a", "5"))
		if got := r.recalls("8"); len(got) > 0 || len(r.claims) != 1 {
			t.Errorf("%s: recalls %v, knows %v", name, got, r.claims)
		}
	}
}

func TestRestoreKeepsWhatIsRemembered(t *testing.T) {
	h := newHeld(t)
	r := newTestRecollection(t, "")
	h.recollection = r
	other := claimAt("192.0.2.3", "a", "8") // of an earlier Service of that name
	other.Annotations[lb.ServiceUIDAnnotation] = "service a before"
	r.list("9", claimAt("192.0.2.1", "a", "5"), claimAt("192.0.2.2", "gone", "7"), other)
	h.recall(t.Context(), r.known(), "6", []v1.Service{*h.svc[0], *h.svc[1]})

	if c, _ := h.ledger.Claim(netip.MustParseAddr("192.0.2.1")); len(c.Holders) != 1 || c.Holders[0].Service != h.key(0) {
		t.Errorf("192.0.2.1 is held by %v", c.Holders)
	}
	if _, err := h.client.NetworkingV1().IPAddresses().Get(t.Context(), "192.0.2.1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	var rests []string
	for _, r := range h.ledger.Resting() {
		rests = append(rests, r.Addr.String()+" "+r.Owner.String())
	}
	if d := cmp.Diff([]string{"192.0.2.2 d/gone", "192.0.2.3 d/a"}, rests); d != "" {
		t.Error(d)
	}
	if again := r.recalls("6"); again != nil {
		t.Error("what is saved would be saved again:", again)
	}
}

func TestServiceThatHasAnotherVIPAfterARestoreKeepsThat(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	r := newTestRecollection(t, "")
	h.recollection = r
	shared := claimAt("192.0.2.0", "a", "8") // which the backup has of a alone
	shared.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	r.list("9", claimAt("192.0.2.1", "a", "5"), shared)
	h.recall(t.Context(), r.known(), "6", []v1.Service{*h.svc[0], *h.svc[1]})
	for i := range h.svc {
		if got := h.ledger.Holds(h.key(i)); !slices.Equal(got, []netip.Addr{h.addr}) {
			t.Errorf("%s holds %v", h.svc[i].Name, got)
		}
	}
	if c, _ := h.claimOf(h.addr); !c.heldBy(h.key(0)) || !c.heldBy(h.key(1)) {
		t.Errorf("its object says that it is held by %v", c.holders)
	}
	if got := h.ledger.Resting(); len(got) != 1 || got[0].Addr.String() != "192.0.2.1" {
		t.Errorf("%v rests", got)
	}
}
