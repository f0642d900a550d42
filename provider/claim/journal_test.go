package claim

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// claimAt is the object by which d/NAME, whose UID is "service NAME", holds a.
func claimAt(a, name, version string) *networkingv1.IPAddress {
	o := New(netip.MustParseAddr(a), "public", lb.ServiceKey{Namespace: "d", Name: name}, "service "+name)
	o.ResourceVersion = version
	return o
}

func newTestJournal(t *testing.T, file string) *Journal {
	t.Helper()
	j := NewJournal(slog.New(slog.NewTextHandler(t.Output(), nil)), Client{Kube: fake.NewClientset(), Namespace: "kube-system"}, file)
	j.now = func() time.Time { return noon }
	j.Load()
	return j
}

// counts has the journal read a count of writes.
func (j *Journal) counts(writes int64) { j.Saw(j.Writes(), writes) }

// lists has the journal take in a list after the count of writes was read.
func (j *Journal) lists(writes int64, version string, objects ...*networkingv1.IPAddress) {
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	j.counts(writes)
	_ = j.Replace(all, version)
}

// remembered returns the addresses that were known before a restore.
func (j *Journal) remembered() (all []string) {
	before, _ := j.BeforeRestore()
	for a := range before {
		all = append(all, a.String())
	}
	slices.Sort(all)
	return all
}

func TestOnlyARestoreBringsBackWhatIsRemembered(t *testing.T) {
	one, two := claimAt("192.0.2.1", "a", "5"), claimAt("192.0.2.2", "b", "9")
	deleted := two.DeepCopy()
	deleted.ResourceVersion = "11"
	both := []string{"192.0.2.1", "192.0.2.2"}
	for name, c := range map[string]struct {
		happens func(j *Journal)
		want    []string
	}{
		"nothing":                    {func(*Journal) {}, nil},
		"the count is the same":      {func(j *Journal) { j.counts(20) }, nil},
		"it has grown":               {func(j *Journal) { j.counts(21) }, nil},
		"it went back":               {func(j *Journal) { j.counts(19) }, both},
		"the ConfigMap is not there": {func(j *Journal) { _ = j.Check(context.Background()) }, nil},
		"it is made anew": {func(j *Journal) {
			none, _ := j.ReadReleased(context.Background())
			_, _ = j.WriteReleased(context.Background(), none, nil)
		}, nil},
		"it went back before a list came": {func(j *Journal) { j.lists(12, "7", one) }, both},
		// etcdutl snapshot restore --bump-revision
		"it went back, and versions did not":  {func(j *Journal) { j.lists(12, "1000000009", one) }, both},
		"it went back, and grows again":       {func(j *Journal) { j.counts(12); j.counts(13) }, both},
		"one was deleted":                     {func(j *Journal) { _ = j.Delete(deleted); j.counts(21) }, nil},
		"one was deleted, then restored":      {func(j *Journal) { _ = j.Delete(deleted); j.counts(12) }, both[:1]},
		"one is not in the next list":         {func(j *Journal) { j.lists(20, "12", one); j.counts(19) }, both[:1]},
		"restored, and the cluster has it":    {func(j *Journal) { j.lists(12, "7", one); j.Forget() }, nil},
		"restored twice":                      {func(j *Journal) { j.lists(12, "7", one); j.lists(11, "6") }, both},
		"restored, and much later once more":  {func(j *Journal) { j.lists(12, "7", one); j.Forget(); j.counts(11) }, both[:1]},
		"another program's object, from here": {func(j *Journal) { o := claimAt("192.0.2.2", "b", "11"); o.Labels = nil; _ = j.Update(o); j.counts(3) }, both[:1]},
		"restored long ago": {func(j *Journal) {
			j.lists(12, "7", one)
			j.now = func() time.Time { return noon.Add(11 * time.Minute) }
		}, nil},
		"a newer version wrote one of them": {func(j *Journal) {
			o := two.DeepCopy()
			o.ResourceVersion, o.Annotations[inventory.AnnotationFormat] = "12", "2"
			_ = j.Update(o)
			j.counts(12)
		}, both},
	} {
		t.Run(name, func(t *testing.T) {
			j := newTestJournal(t, "")
			j.lists(20, "8", one)
			_ = j.Add(two)
			c.happens(j)
			if d := cmp.Diff(c.want, j.remembered()); d != "" {
				t.Error(d)
			}
		})
	}
}

// lateClient has something happen after an answer was given, and before it arrives.
type lateClient struct {
	kubernetes.Interface
	answered func()
}

func (c *lateClient) CoreV1() typedv1.CoreV1Interface { return lateGroup{c.Interface.CoreV1(), c} }

type lateGroup struct {
	typedv1.CoreV1Interface
	client *lateClient
}

func (g lateGroup) ConfigMaps(namespace string) typedv1.ConfigMapInterface {
	return lateMaps{g.CoreV1Interface.ConfigMaps(namespace), g.client}
}

type lateMaps struct {
	typedv1.ConfigMapInterface
	client *lateClient
}

func (m lateMaps) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.ConfigMap, error) {
	answer, err := m.ConfigMapInterface.Get(ctx, name, o)
	if f := m.client.answered; f != nil {
		m.client.answered = nil
		f()
	}
	return answer, err
}

// TestAnswerThatComesLateIsNoRestore has the count read twice at once, and the earlier answer
// arrive last.
func TestAnswerThatComesLateIsNoRestore(t *testing.T) {
	for name, c := range map[string]struct {
		writes int64 // that are there when it is asked again
		told   bool
	}{
		"it is written meanwhile":      {21, false},
		"etcd is restored meanwhile":   {12, true},
		"nothing is written meanwhile": {20, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := newTestJournal(t, "")
			kube := &lateClient{Interface: j.client.Kube}
			j.client.Kube = kube
			check := func(writes int64) {
				t.Helper()
				m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ReleasedName}, Data: map[string]string{writesKey: strconv.FormatInt(writes, 10)}}
				maps := kube.CoreV1().ConfigMaps(j.client.Namespace)
				if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
					_, _ = maps.Create(t.Context(), m, metav1.CreateOptions{})
				}
				if err := j.Check(t.Context()); err != nil {
					t.Error(err)
				}
			}
			check(19)
			var last <-chan struct{}
			kube.answered = func() { check(c.writes); last = j.Restored() }
			check(20)
			check(c.writes)
			if _, told := j.BeforeRestore(); told != c.told || j.writes != c.writes {
				t.Errorf("told %v, and %d writes are known", told, j.writes)
			}
			if j.Restored() != last {
				t.Error("told once more")
			}
		})
	}
}

// TestAJournalThatIsAheadOfTheClusterListsAnew is of a restore that no count tells of, as that
// of an older version's cluster: its watch would say nothing for hours, and nobody could lead.
func TestAJournalThatIsAheadOfTheClusterListsAnew(t *testing.T) {
	j := newTestJournal(t, "")
	j.lists(0, "1000", claimAt("192.0.2.1", "a", "900"))
	relisted := false
	j.relist = func() { relisted = true }
	if j.Lead(nil, "800", func() { t.Error("it takes over what is older than it knows") }) || !relisted {
		t.Errorf("lists anew: %v", relisted)
	}
}

func TestARestoreIsToldOnce(t *testing.T) {
	j := newTestJournal(t, "")
	j.counts(20)
	first := j.Restored()
	j.counts(19)
	select {
	case <-first:
	default:
		t.Fatal("it is not told")
	}
	select {
	case <-j.Restored():
		t.Error("it is told to who asks after it")
	default:
	}
}

func TestJournalOutlivesItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made", "claims.json")
	j := newTestJournal(t, file)
	shared := claimAt("2001:db8::1", "b", "8")
	shared.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	j.lists(20, "8", claimAt("192.0.2.1", "a", "5"), shared)
	text, last := j.due(revision{at: noon})
	if err := j.write(text); err != nil {
		t.Fatal(err)
	}
	j.counts(21)
	if text, _ := j.due(last); text != nil {
		t.Error("written again though only a moment has gone by")
	}
	j.silent = true
	if text, _ := j.due(last); text == nil {
		t.Error("not written though it may have been the last moment")
	}

	next := newTestJournal(t, file)
	if text, _ := next.due(revision{}); text != nil {
		t.Error("what is not known yet is written over what was")
	}
	next.lists(19, "1000000000") // restored meanwhile
	text, _ = next.due(revision{})
	if err := next.write(text); err != nil {
		t.Fatal(err)
	}
	third := newTestJournal(t, file)
	got, restored := third.BeforeRestore()
	want := map[netip.Addr]Entry{
		netip.MustParseAddr("192.0.2.1"):   {"public", []lb.ServiceKey{{Namespace: "d", Name: "a"}}, "service a"},
		netip.MustParseAddr("2001:db8::1"): {"public", []lb.ServiceKey{{Namespace: "d", Name: "b"}, {Namespace: "d", Name: "a"}}, "service b"},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); d != "" || !restored {
		t.Error("restored:", restored, d)
	}
}

func TestFileThatCannotBeReadIsNoJournal(t *testing.T) {
	entries := `"Claims":{"192.0.2.1":{"Pool":"public","Holders":[{"Namespace":"d","Name":"a"}]}}}`
	for name, c := range map[string]struct {
		make func(file string) error
		want int
	}{
		"none": {func(string) error { return nil }, 0},
		"cut off": {func(f string) error {
			return os.WriteFile(f, []byte(`{"Writes":9,"Claims":{"192.0.2.1":{"Pool`), 0o600)
		}, 0},
		"empty":              {func(f string) error { return os.WriteFile(f, nil, 0o600) }, 0},
		"null":               {func(f string) error { return os.WriteFile(f, []byte("null"), 0o600) }, 0},
		"a folder":           {func(f string) error { return os.Mkdir(f, 0o700) }, 0},
		"no claims":          {func(f string) error { return os.WriteFile(f, []byte(`{"Writes":9}`), 0o600) }, 0},
		"without a number":   {func(f string) error { return os.WriteFile(f, []byte(`{"Writes":9,`+entries), 0o600) }, 1},
		"of this version":    {func(f string) error { return os.WriteFile(f, []byte(`{"Format":1,"Writes":9,`+entries), 0o600) }, 1},
		"of one before":      {func(f string) error { return os.WriteFile(f, []byte(`{"Format":1,"Version":"900",`+entries), 0o600) }, 0}, // it did not count
		"of a newer version": {func(f string) error { return os.WriteFile(f, []byte(`{"Format":2,"Writes":9,`+entries), 0o600) }, 0},
		"of another form":    {func(f string) error { return os.WriteFile(f, []byte(`{"Format":2,"Writes":"9","Claims":[]}`), 0o600) }, 0},
	} {
		file := filepath.Join(t.TempDir(), "claims.json")
		if err := c.make(file); err != nil {
			t.Fatal(err)
		}
		j := newTestJournal(t, file)
		j.lists(8, "8", claimAt("192.0.2.9", "z", "5"))
		if got := j.remembered(); len(got) != c.want || len(j.objects) != 1 {
			t.Errorf("%s: remembers %v, knows %v", name, got, j.objects)
		}
	}
}

// TestAFileThatIsReadForLongIsTold: who waits for it neither leads nor answers probes, and would
// say nothing.
func TestAFileThatIsReadForLongIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claims.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil { // which is as silent as a disk that hangs
		t.Fatal(err)
	}
	said, read := make(chan string, 10), make(chan struct{})
	j := NewJournal(slog.New(slog.NewTextHandler(lines(said), nil)), Client{}, file)
	go func() {
		j.Load()
		close(read)
	}()
	select {
	case line := <-said:
		if !strings.Contains(line, file) {
			t.Errorf("it says %s", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing is said for ten seconds")
	}
	answers, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers.Close(); err != nil {
		t.Fatal(err)
	}
	<-read
}

// lines is sent each line that is logged.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}
