package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"plinth.dev/plinth/durable"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/wake"
)

const (
	rememberedFor = ipam.QuarantineTime // what was known before a restore counts for as long
	checkEvery    = 10 * time.Second    // how often the count of writes is compared
	answerWithin  = 5 * time.Second     // of the cluster, when it is

	writtenEvery = 2 * time.Second // the file, at most, when something has changed
	countedEvery = time.Minute     // when nothing has but the count of writes
	writtenAgain = time.Minute     // after a failure
	diskWithin   = 2 * time.Second // has to answer, or the log says so

	fileFormat = 1 // the number of the file's format; without one it is the first
)

// Journal notices that etcd was restored from a backup, and knows what the backup does not. It
// does so outside etcd: in the memory of each process, whether it leads or waits to lead, and in
// a file for the process after it.
//
// It notices by the count of writes in ConfigMap plinth-released, which only a leader makes
// grow, every ten seconds at least: a count that is smaller than the one before is of a restored
// etcd. Resource versions would not do: a restore may raise them (etcdutl snapshot restore
// --bump-revision).
//
// From then on the claims that were known at that moment count, and the file says them and the
// greater count on. So each process that comes to lead, however often one dies, finds what is to
// be claimed anew. It ends when a count is read that is greater than all that were known before:
// that is how a leader says that it has repaired everything. Where nobody says so it ends when
// all of it would be out of quarantine.
type Journal struct {
	log    *slog.Logger
	client Client
	mirror *Mirror
	file   string // empty: it is written down nowhere
	now    func() time.Time

	checking sync.Mutex // one count at a time, or an answer that comes late would be taken for a restore
	writing  sync.Mutex // the file, one at a time, or the older one could come last
	last     revision   // that was written

	mu        sync.Mutex
	writes    int64                // that the cluster has counted, as was read or written last
	previous  map[netip.Addr]Entry // that the process before wrote down: counts until the objects are listed
	before    *Memory              // of before a restore that is not known to be repaired; nil: there is none
	noticed   time.Time            // when that was noticed
	onRestore func()               // called when one is
}

// Memory is the knowledge of claims outside etcd, as it stands in the file too: it counts if the first
// count of writes that the next process reads is smaller.
type Memory struct {
	Format int
	Writes int64 // the greatest count; 0: an older version wrote the file, which did not count
	Claims map[netip.Addr]Entry
}

// Entry is the part of a claim that the journal remembers.
type Entry struct {
	Pool    string
	Holders []lb.ServiceKey // the parent first, if it is one
	UID     string          // of the parent; empty: not known, or it is no holder
}

// revision tells apart what was written down when.
type revision struct {
	changes int // of the objects
	before  *Memory
	at      time.Time
}

// NewJournal returns a Journal that knows what a mirror does. file is where it is written down;
// empty: nowhere.
func NewJournal(log *slog.Logger, client Client, mirror *Mirror, file string) *Journal {
	return &Journal{log: log, client: client, mirror: mirror, file: file, now: time.Now, onRestore: func() {}}
}

// Run compares the count of writes, and writes down what is known, until ctx ends.
// [Journal.Load] comes first.
func (j *Journal) Run(ctx context.Context) {
	if j.file != "" {
		go j.keep(ctx)
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) { _ = j.Check(ctx) }, checkEvery) // who needs to know says why it fails
}

// OnRestore sets the function that is called, in a goroutine of its own, when a restore is noticed from now on.
func (j *Journal) OnRestore(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.onRestore = f
}

// Check notices whether etcd was restored. It is called before a list of claims is believed, and
// before a claim is taken for gone: what the backup does not have was not deleted. That somebody
// has deleted the ConfigMap is no restore.
func (j *Journal) Check(ctx context.Context) error {
	_, err := j.ReadReleased(ctx)
	if err != nil && !errors.Is(err, ErrUnreadable) { // which the count is not
		return fmt.Errorf("it is not known yet whether etcd was restored: %w", err)
	}
	return nil
}

// ReadReleased is [Client.ReadReleased], and takes in the count, if there is one.
func (j *Journal) ReadReleased(ctx context.Context) (Released, error) {
	j.checking.Lock()
	defer j.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := j.client.ReadReleased(ctx)
	if r.Writes > 0 {
		j.counted(r.Writes)
	}
	return r, err
}

// WriteReleased is [Client.WriteReleased], and takes in the count: a backup of a moment ago is told
// from what was written since. While a restore is not repaired the count stays as it is, since a
// count greater than before says that it is.
func (j *Journal) WriteReleased(ctx context.Context, before Released, quarantined []ipam.Quarantined) (Released, error) {
	j.checking.Lock()
	defer j.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if m := j.BeforeRestore(); m != nil && before.Writes <= m.Writes {
		before.Writes-- // which the write adds
	}
	r, err := j.client.WriteReleased(ctx, before, quarantined)
	if err == nil {
		j.counted(r.Writes)
	}
	return r, err
}

// counted records a count that was read, or written.
func (j *Journal) counted(writes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	earlier, known := j.unrepaired(), j.writes
	if j.writes = writes; writes >= known {
		return
	}
	j.log.Error("found etcd restored from a backup: configmap "+ReleasedName+" was written less often than is known", "before", known, "now", writes)
	now := &Memory{fileFormat, known, map[netip.Addr]Entry{}}
	if earlier != nil { // it is restored once more
		now.Writes = max(known, earlier.Writes)
		maps.Copy(now.Claims, earlier.Claims)
	}
	maps.Copy(now.Claims, j.claims())
	j.before, j.noticed = now, j.now()
	j.mirror.Relist()
	go j.onRestore()
}

// unrepaired returns the memory of before a restore, while that counts; else nil. j.mu is held.
func (j *Journal) unrepaired() *Memory {
	if j.before != nil && (j.writes > j.before.Writes || j.now().Sub(j.noticed) > rememberedFor) {
		j.before = nil
	}
	return j.before
}

// BeforeRestore returns the memory of before a restore that is not known to be repaired; nil:
// there was none. It is not to be changed.
func (j *Journal) BeforeRestore() *Memory {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unrepaired()
}

// Writes returns the count of writes that was read or written last.
func (j *Journal) Writes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writes
}

// claims returns the entries of all objects, or, while they are not listed yet, those that
// the process before wrote down. j.mu is held.
func (j *Journal) claims() map[netip.Addr]Entry {
	if j.mirror.Changes() == 0 {
		return j.previous
	}
	all := map[netip.Addr]Entry{}
	for _, o := range j.mirror.Objects() {
		e := Entry{Pool: o.Pool, Holders: o.Holders}
		if i := slices.Index(o.Holders, o.Parent); i >= 0 && o.ParentUID != ipam.ParentLeft {
			e.Holders, e.UID = slices.Concat(o.Holders[i:i+1], o.Holders[:i], o.Holders[i+1:]), o.ParentUID
		}
		all[o.Addr] = e
	}
	return all
}

// Load reads the file that the process before this one wrote. Without a file, or when it cannot
// be read, nothing is known.
func (j *Journal) Load() {
	late := time.AfterFunc(diskWithin, func() {
		j.log.Error("still reading which VIPs were held before, and this process neither leads nor answers probes before that ends; does the disk answer?", "file", j.file)
	})
	text, err := os.ReadFile(j.file)
	late.Stop()
	if j.file == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var memory Memory
	if err == nil {
		err = json.Unmarshal(text, &memory)
	}
	if memory.Format > fileFormat { // all else may have another form
		err = &inventory.NewerFormatError{Object: "file " + j.file, Format: strconv.Itoa(memory.Format), Reads: fileFormat}
	}
	if err != nil {
		j.log.Error("cannot read which VIPs were held before, and goes on without", "file", j.file, "err", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes, j.previous = memory.Writes, memory.Claims
}

// keep writes the journal down until ctx ends.
func (j *Journal) keep(ctx context.Context) {
	durable.RemoveParts(j.file)
	for ctx.Err() == nil {
		pause := writtenEvery
		if !j.write() {
			pause = writtenAgain
		}
		wake.After(ctx, pause)
	}
}

// Save writes the journal down once more, before this process ends. It gives up after two
// seconds: the disk may hang.
func (j *Journal) Save() {
	saved := make(chan struct{})
	go func() { j.write(); close(saved) }()
	select {
	case <-saved:
	case <-time.After(diskWithin):
		j.log.Error("cannot write down in time which VIPs were held; does the disk answer?", "file", j.file)
	}
}

// write writes the journal down, if there is something new in it, and reports false if it cannot.
// A disk that is full, or hangs, is in nobody's way: j.mu is not held meanwhile.
func (j *Journal) write() bool {
	j.writing.Lock()
	defer j.writing.Unlock()
	text, next := j.due(j.last)
	if text == nil || j.file == "" {
		return true
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(j.file), 0o700), durable.Replace(j.file, text)); err != nil {
		j.log.Error("cannot write down which VIPs are held; will try again", "file", j.file, "err", err)
		return false
	}
	j.last = next
	return true
}

// due returns the content that is to be written to the file now; nil: nothing. Before the objects are listed the
// content of the file counts. While a restore is not repaired the file keeps the memory of before it.
func (j *Journal) due(last revision) ([]byte, revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := revision{j.mirror.Changes(), j.unrepaired(), j.now()}
	if next.changes == 0 {
		return nil, last
	}
	j.previous = nil
	same := next.changes == last.changes && next.at.Sub(last.at) < countedEvery
	if next.before == last.before && (same || next.before != nil) {
		return nil, last
	}
	m := next.before
	if m == nil {
		m = &Memory{fileFormat, j.writes, j.claims()}
	}
	text, _ := json.Marshal(m) // of such a type it always succeeds
	return text, next
}
