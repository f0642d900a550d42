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
	log, client := slog.New(slog.NewTextHandler(t.Output(), nil)), Client{Kube: fake.NewClientset(), Namespace: "kube-system"}
	j := NewJournal(log, client, NewMirror(log, client), file)
	j.now = func() time.Time { return noon }
	j.Load()
	return j
}

// lists has the journal take in a list after the count of writes was read.
func (j *Journal) lists(writes int64, version string, objects ...*networkingv1.IPAddress) {
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	j.counted(writes)
	_ = j.mirror.Replace(all, version)
}

// remembered returns the addresses that were known before a restore.
func (j *Journal) remembered() (all []string) {
	if before := j.BeforeRestore(); before != nil {
		for a := range before.Claims {
			all = append(all, a.String())
		}
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
		"nothing":                         {func(*Journal) {}, nil},
		"the count is the same":           {func(j *Journal) { j.counted(20) }, nil},
		"it has grown":                    {func(j *Journal) { j.counted(21) }, nil},
		"it went back":                    {func(j *Journal) { j.counted(19) }, both},
		"the ConfigMap is not there":      {func(j *Journal) { _ = j.Check(context.Background()) }, nil},
		"it went back before a list came": {func(j *Journal) { j.lists(12, "7", one) }, both},
		// etcdutl snapshot restore --bump-revision
		"it went back, and versions did not": {func(j *Journal) { j.lists(12, "1000000009", one) }, both},
		"it went back, and grows again":      {func(j *Journal) { j.counted(12); j.counted(13) }, both},
		"it grows to what was known":         {func(j *Journal) { j.counted(12); j.counted(20) }, both},
		"it grows further: it is repaired":   {func(j *Journal) { j.counted(12); j.counted(21) }, nil},
		"one was deleted":                    {func(j *Journal) { _ = j.mirror.Delete(deleted); j.counted(21) }, nil},
		"one was deleted, then restored":     {func(j *Journal) { _ = j.mirror.Delete(deleted); j.counted(12) }, both[:1]},
		"one is not in the next list":        {func(j *Journal) { j.lists(20, "12", one); j.counted(19) }, both[:1]},
		"restored, and the cluster has it":   {func(j *Journal) { j.lists(12, "7", one); j.counted(1020) }, nil},
		"restored twice":                     {func(j *Journal) { j.lists(12, "7", one); j.lists(11, "6") }, both},
		"restored, and much later once more": {func(j *Journal) { j.lists(12, "7", one); j.counted(1020); j.counted(11) }, both[:1]},
		"another program's object, from here": {func(j *Journal) {
			o := claimAt("192.0.2.2", "b", "11")
			o.Labels = nil
			_ = j.mirror.Update(o)
			j.counted(3)
		}, both[:1]},
		"restored long ago": {func(j *Journal) {
			j.lists(12, "7", one)
			j.now = func() time.Time { return noon.Add(11 * time.Minute) }
		}, nil},
		"a newer version wrote one of them": {func(j *Journal) {
			o := two.DeepCopy()
			o.ResourceVersion, o.Annotations[inventory.AnnotationFormat] = "12", "2"
			_ = j.mirror.Update(o)
			j.counted(12)
		}, both},
	} {
		t.Run(name, func(t *testing.T) {
			j := newTestJournal(t, "")
			j.lists(20, "8", one)
			_ = j.mirror.Add(two)
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

// clusterCounts has the ConfigMap say that it was written so often.
func (j *Journal) clusterCounts(t *testing.T, writes int64) {
	t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ReleasedName}, Data: map[string]string{writesKey: strconv.FormatInt(writes, 10)}}
	all := j.client.Kube.CoreV1().ConfigMaps(j.client.Namespace)
	_, err := all.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = all.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (j *Journal) checks(t *testing.T) {
	t.Helper()
	if err := j.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAnswerThatComesLateIsNoRestore has the count read twice at once: an earlier answer that
// arrived last would be smaller.
func TestAnswerThatComesLateIsNoRestore(t *testing.T) {
	j := newTestJournal(t, "")
	kube := &lateClient{Interface: j.client.Kube}
	j.client.Kube = kube
	j.clusterCounts(t, 20)
	second := make(chan struct{})
	kube.answered = func() {
		j.clusterCounts(t, 21)
		go func() { j.checks(t); close(second) }()
		select {
		case <-second: // it was asked and answered meanwhile
		case <-time.After(100 * time.Millisecond): // it waits its turn
		}
	}
	j.checks(t)
	<-second
	if got := j.remembered(); got != nil || j.BeforeRestore() != nil || j.Writes() != 21 {
		t.Errorf("taken for a restore; %d writes are known", j.Writes())
	}
}

func TestARestoreIsToldOnce(t *testing.T) {
	j := newTestJournal(t, "")
	told, relisted := make(chan int64, 10), 0
	j.mirror.relist = func() { relisted++ } // its watch waits for a version that is yet to come
	j.OnRestore(func() { told <- j.Writes() })
	for _, writes := range []int64{20, 19, 19, 20} {
		j.counted(writes)
	}
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not told")
	}
	j.counted(3) // once more
	if <-told; len(told) > 0 || relisted != 2 {
		t.Errorf("etcd was restored twice; told besides %d times, listed anew %d times", len(told), relisted)
	}
}

// writesDown has a journal write down what there is to write, and reports whether there was
// something.
func (j *Journal) writesDown(t *testing.T) bool {
	t.Helper()
	last := j.last
	if !j.write() {
		t.Fatal("it cannot be written")
	}
	return j.last != last
}

func TestJournalOutlivesItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made", "claims.json")
	j := newTestJournal(t, file)
	if j.writesDown(t) {
		t.Error("what is not known yet is written down")
	}
	shared := claimAt("2001:db8::1", "b", "8")
	shared.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	j.lists(20, "8", claimAt("192.0.2.1", "a", "5"), shared)
	j.writesDown(t)
	j.counted(21)
	if j.writesDown(t) {
		t.Error("written again though only a moment has gone by")
	}
	j.now = func() time.Time { return noon.Add(countedEvery) }
	if !j.writesDown(t) {
		t.Error("the count is not written down")
	}

	next := newTestJournal(t, file)
	if next.writesDown(t) {
		t.Error("what is not known yet is written over what was")
	}
	next.lists(20, "1000000000") // restored meanwhile
	want := map[netip.Addr]Entry{
		netip.MustParseAddr("192.0.2.1"):   {"public", []lb.ServiceKey{{Namespace: "d", Name: "a"}}, "service a"},
		netip.MustParseAddr("2001:db8::1"): {"public", []lb.ServiceKey{{Namespace: "d", Name: "b"}, {Namespace: "d", Name: "a"}}, "service b"},
	}
	got := next.BeforeRestore()
	if got == nil {
		t.Fatal("the restore is not noticed")
	}
	if d := cmp.Diff(want, got.Claims, cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); d != "" || got.Writes != 21 {
		t.Error(got.Writes, d)
	}
}

// TestAProcessThatDiesAfterARestoreLeavesTheNextOneWhatWasBefore until it is repaired, wherever
// it dies, and nothing once it is.
func TestAProcessThatDiesAfterARestoreLeavesTheNextOneWhatWasBefore(t *testing.T) {
	one, two := claimAt("192.0.2.1", "a", "5"), claimAt("192.0.2.2", "b", "9")
	both := []string{"192.0.2.1", "192.0.2.2"}
	for name, c := range map[string]struct {
		happens func(j *Journal) // to a process that knows of the restore; then it dies
		cluster int64            // the count that the next one reads
		want    []string
	}{
		"at once":                                {func(*Journal) {}, 12, both},
		"when it has saved it":                   {func(j *Journal) { j.Save() }, 12, both},
		"when it has listed what the backup has": {func(j *Journal) { j.lists(12, "7", one); j.write() }, 12, both},
		"when it has claimed it anew":            {func(j *Journal) { j.lists(13, "7", one); j.mirror.Add(two); j.write() }, 14, both},
		"when it has said that it is repaired":   {func(j *Journal) { j.lists(13, "7", one); j.mirror.Add(two); j.write() }, 1021, nil},
		"when it has seen what it said":          {func(j *Journal) { j.lists(13, "7", one); j.counted(1021); j.write() }, 1022, nil},
		"when it has written it down, and etcd is restored once more": {
			func(j *Journal) { j.lists(13, "7", one); j.counted(1021); j.write() }, 12, both[:1]},
		"when nobody has repaired it in time": {
			func(j *Journal) {
				j.lists(12, "7", one)
				j.now = func() time.Time { return noon.Add(11 * time.Minute) }
				j.write()
			}, 13, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "claims.json")
			j := newTestJournal(t, file)
			j.lists(20, "8", one)
			j.write()
			_ = j.mirror.Add(two)
			j.write()
			j.counted(12)
			c.happens(j)
			next := newTestJournal(t, file)
			next.counted(c.cluster)
			if d := cmp.Diff(c.want, next.remembered()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTheLastWordIsWhatWasKnownBeforeTheRestore though the file was not written for a while.
func TestTheLastWordIsWhatWasKnownBeforeTheRestore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claims.json")
	j := newTestJournal(t, file)
	j.lists(20, "8", claimAt("192.0.2.1", "a", "5"))
	j.writesDown(t)
	_ = j.mirror.Add(claimAt("192.0.2.2", "b", "9"))
	j.counted(12)
	_ = j.mirror.Replace(nil, "7") // what a restored cluster has
	j.Save()
	next := newTestJournal(t, file)
	next.counted(12)
	if d := cmp.Diff([]string{"192.0.2.1", "192.0.2.2"}, next.remembered()); d != "" {
		t.Error(d)
	}
}

// TestADiskThatHangsDoesNotKeepAProcessFromEnding has a write under way that takes for ever.
func TestADiskThatHangsDoesNotKeepAProcessFromEnding(t *testing.T) {
	t.Parallel() // a goroutine that hangs in the kernel or for a lock stops the clock of a bubble
	file := filepath.Join(t.TempDir(), "claims.json")
	j := newTestJournal(t, file)
	j.lists(20, "8", claimAt("192.0.2.1", "a", "5"))
	j.writing.Lock()
	ended := make(chan struct{})
	go func() { j.Save(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * diskWithin):
		t.Error("it waits for the disk still")
	}
	j.writing.Unlock() // it answers at last
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := os.Stat(file)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	j.writing.Lock() // once whoever writes has done so
	defer j.writing.Unlock()
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
		"empty":            {func(f string) error { return os.WriteFile(f, nil, 0o600) }, 0},
		"null":             {func(f string) error { return os.WriteFile(f, []byte("null"), 0o600) }, 0},
		"a folder":         {func(f string) error { return os.Mkdir(f, 0o700) }, 0},
		"no claims":        {func(f string) error { return os.WriteFile(f, []byte(`{"Writes":9}`), 0o600) }, 0},
		"without a number": {func(f string) error { return os.WriteFile(f, []byte(`{"Writes":9,`+entries), 0o600) }, 1},
		"of a restore that was not repaired, by an older version": {func(f string) error {
			return os.WriteFile(f, []byte(`{"Format":1,"Writes":9,"Before":{"192.0.2.8":{"Pool":"public"}},"BackAt":"2026-01-01T12:00:00Z",`+entries), 0o600)
		}, 1},
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
		if got := j.remembered(); len(got) != c.want || len(j.mirror.objects) != 1 {
			t.Errorf("%s: remembers %v, knows %v", name, got, j.mirror.objects)
		}
	}
}

// TestAFileThatIsReadForLongIsTold: who waits for it neither leads nor answers probes, and would
// say nothing.
func TestAFileThatIsReadForLongIsTold(t *testing.T) {
	t.Parallel() // a goroutine that hangs in the kernel or for a lock stops the clock of a bubble
	file := filepath.Join(t.TempDir(), "claims.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil { // which is as silent as a disk that hangs
		t.Fatal(err)
	}
	said, read := make(chan string, 10), make(chan struct{})
	j := NewJournal(slog.New(slog.NewTextHandler(lines(said), nil)), Client{}, nil, file)
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
