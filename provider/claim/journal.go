package claim

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"
	"unique"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

const (
	// rememberedFor is how long what was known before a restore counts: as long as an address
	// is in quarantine.
	rememberedFor = ipam.QuarantineTime
	// checkEvery is how often the count of writes is compared, silentEvery how often while the
	// cluster does not answer, and answerWithin how long it has for an answer.
	checkEvery   = 10 * time.Second
	silentEvery  = time.Second
	answerWithin = 5 * time.Second
)

// Journal is what this process knows of claims, whether it leads or waits to lead. While etcd
// is restored from a backup the leader loses its lease and ends, and with it all that the
// backup does not have. Whoever leads next has it here: it waited meanwhile, or has the file
// that its predecessor left.
//
// Nothing of it counts unless the count of writes in ConfigMap plinth-released went back, which
// only its leader makes grow, every ten seconds at least. Resource versions would not do: a
// restore may raise them (etcdutl snapshot restore --bump-revision). The count is read before
// the claims are, so that a restore is noticed before its list is believed.
type Journal struct {
	log    *slog.Logger
	file   string // empty: none
	now    func() time.Time
	client Client

	restored chan struct{} // closed when a restore was noticed, and made anew
	relist   context.CancelFunc

	mu       sync.Mutex
	objects  map[netip.Addr]ipam.Object // nil: the sink has them
	sink     Sink                       // nil: this process does not lead
	version  string                     // the newest resource version that the watch has shown
	changes  int                        // of the objects, and of what is remembered
	previous map[netip.Addr]Entry       // that an earlier process wrote down; nil once the objects were listed
	writes   int64                      // the greatest count of writes that is known
	before   map[netip.Addr]Entry       // known before a restore
	backAt   time.Time                  // when that was noticed
	silent   bool                       // the cluster did not answer when it was asked last
}

// Sink keeps the objects while this process leads. Its methods are called by one goroutine at
// a time, but for Objects.
type Sink interface {
	Observe(ipam.Object)                     // a list or a watch shows it
	ObserveForeign(netip.Addr)               // it is another program's
	ObserveDeleted(a netip.Addr, uid string) // it is gone
	Objects() []ipam.Object                  // all that it has
}

// Entry is what is remembered of a claim.
type Entry struct {
	Pool    string
	Holders []lb.ServiceKey // the parent first, if it is one
	UID     string          // of the parent; empty: not known, or it is no holder
}

// NewJournal returns a Journal that knows nothing. file is where it is written down; empty:
// nowhere.
func NewJournal(log *slog.Logger, client Client, file string) *Journal {
	return &Journal{
		log: log, client: client, file: file, now: time.Now,
		restored: make(chan struct{}), objects: map[netip.Addr]ipam.Object{},
	}
}

// Run follows the claims and the count of writes until ctx ends. [Journal.Load] comes first.
func (j *Journal) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if j.file != "" {
		running.Go(func() { j.keep(ctx) })
	}
	running.Go(func() { j.follow(ctx) })
	for ctx.Err() == nil {
		sleep(ctx, j.checkSoon(ctx))
	}
}

// sleep waits for so long, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Restored is closed when it is noticed next that etcd was restored.
func (j *Journal) Restored() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.restored
}

// checkSoon is Check, and returns when to check again.
func (j *Journal) checkSoon(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := j.Check(ctx); err != nil {
		return silentEvery
	}
	return checkEvery
}

// Check compares the count of writes that the cluster has with the one that is known.
func (j *Journal) Check(ctx context.Context) error {
	_, err := j.ReadReleased(ctx)
	if errors.Is(err, ErrUnreadable) {
		err = nil // the count is not
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.silent = err != nil
	return err
}

// ReadReleased is [Client.ReadReleased], and takes in the count of writes. Where somebody has
// deleted the ConfigMap, which is no restore, the count goes on from what is known.
func (j *Journal) ReadReleased(ctx context.Context) (Released, error) {
	known := j.Writes()
	r, err := j.client.ReadReleased(ctx)
	if err != nil && !errors.Is(err, ErrUnreadable) {
		return r, err
	}
	if !r.exists {
		r.Writes = j.Writes()
	}
	j.Saw(known, r.Writes)
	return r, err
}

// WriteReleased is [Client.WriteReleased], and takes in the count of writes.
func (j *Journal) WriteReleased(ctx context.Context, before Released, quarantined []ipam.Quarantined) (Released, error) {
	known := j.Writes()
	r, err := j.client.WriteReleased(ctx, before, quarantined)
	if err == nil {
		j.Saw(known, r.Writes)
	}
	return r, err
}

// Writes returns the greatest count of writes that is known.
func (j *Journal) Writes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writes
}

// Saw takes in a count of writes that was read, or written, and what [Journal.Writes] returned
// before the cluster was asked: another's answer may have arrived since. One that is smaller is
// of a restored etcd: what is known is set aside, and the objects are listed anew.
func (j *Journal) Saw(known, writes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case known > j.writes: // a restore was noticed meanwhile, and the answer may be of before
		return
	case writes >= known:
		j.writes = max(j.writes, writes)
		return
	}
	j.log.Error("etcd was restored from a backup: configmap "+ReleasedName+" was written less often than is known", "before", j.writes, "now", writes)
	if !j.remembers() {
		j.before = map[netip.Addr]Entry{}
	}
	maps.Copy(j.before, j.entries())
	if j.sink == nil {
		clear(j.objects) // no list of the restored cluster would show those gone that are newer than it
	}
	j.writes, j.backAt = writes, j.now()
	j.changes++
	close(j.restored)
	j.restored = make(chan struct{})
	if j.relist != nil {
		j.relist() // a watch waits in silence for a version that is yet to come
	}
}

// remembers reports whether what was known before a restore still counts. j.mu is held.
func (j *Journal) remembers() bool {
	return j.before != nil && j.now().Sub(j.backAt) <= rememberedFor
}

// BeforeRestore returns what was known before etcd was restored a moment ago; restored is
// false if it was not.
func (j *Journal) BeforeRestore() (before map[netip.Addr]Entry, restored bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.remembers() {
		return nil, false
	}
	return maps.Clone(j.before), true
}

// Forget forgets what was known before a restore: the cluster has it again.
func (j *Journal) Forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.before = nil
	j.changes++
}

// entries is what is worth remembering of all objects. j.mu is held.
func (j *Journal) entries() map[netip.Addr]Entry {
	all := map[netip.Addr]Entry{}
	maps.Copy(all, j.previous)
	for _, o := range j.all() {
		all[o.Addr] = entryOf(o)
	}
	return all
}

func entryOf(o ipam.Object) Entry {
	e := Entry{Pool: o.Pool}
	for _, k := range o.Holders {
		if k == o.Parent && o.ParentUID != ipam.ParentLeft {
			e.Holders, e.UID = append([]lb.ServiceKey{k}, e.Holders...), o.ParentUID
			continue
		}
		e.Holders = append(e.Holders, k)
	}
	return e
}

// interned returns an object whose strings that many have are there once.
func interned(o ipam.Object) ipam.Object {
	intern := func(s string) string { return unique.Make(s).Value() }
	o.Pool, o.Parent.Namespace = intern(o.Pool), intern(o.Parent.Namespace)
	for i := range o.Holders {
		o.Holders[i].Namespace = intern(o.Holders[i].Namespace)
	}
	return o
}
