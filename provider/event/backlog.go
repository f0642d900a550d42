package event

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"

	"plinth.dev/plinth/wake"
)

const (
	// maxBacklog is how many Events wait at most. What Services give cause for in one burst
	// is far less.
	maxBacklog = 20_000
	// patience is how long an Event lets what is urgent go first.
	patience = 10 * time.Second
	// look is how often it is asked whether something urgent is to be done.
	look = 50 * time.Millisecond
	// perSecond is how many Events are handed on. client-go keeps 1,000 that are not sent yet
	// and drops the others (v0.37.2); it sends one after the other.
	perSecond, atOnce = 200, 200
)

// Backlog keeps Events until what is urgent is done, and hands them on no faster than they are
// sent. Thousands of Services that get their VIPs at once give cause for as many Events: by
// itself the recorder of client-go would take a third of the API server's time for them while
// others wait, and drop what exceeds its queue.
//
// Events that wait when the process ends are lost, as are those that client-go keeps.
type Backlog struct {
	record.EventRecorder
	urgent func() bool
	log    *slog.Logger
	added  chan struct{} // something was added

	mu      sync.Mutex
	waiting []waiting
	dropped int
}

// waiting is an Event that is not recorded yet.
type waiting struct {
	since  time.Time
	record func()
}

// NewBacklog returns a Backlog before a recorder. urgent reports whether there is something
// that should not wait for Events.
func NewBacklog(recorder record.EventRecorder, urgent func() bool, log *slog.Logger) *Backlog {
	return &Backlog{EventRecorder: recorder, urgent: urgent, log: log, added: make(chan struct{}, 1)}
}

// Event records an Event later.
func (b *Backlog) Event(obj runtime.Object, kind, reason, message string) {
	obj = referenceTo(obj)
	b.add(func() { b.EventRecorder.Event(obj, kind, reason, message) })
}

// Eventf records an Event later.
func (b *Backlog) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	obj = referenceTo(obj)
	b.add(func() { b.EventRecorder.Eventf(obj, kind, reason, format, args...) })
}

// AnnotatedEventf records an Event later.
func (b *Backlog) AnnotatedEventf(obj runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	obj = referenceTo(obj)
	b.add(func() { b.EventRecorder.AnnotatedEventf(obj, annotations, kind, reason, format, args...) })
}

// referenceTo returns the reference to an object, which is all of it that an Event needs and that the backlog keeps.
func referenceTo(obj runtime.Object) runtime.Object {
	if r, err := reference.GetReference(scheme.Scheme, obj); err == nil {
		return r
	}
	return obj
}

func (b *Backlog) add(record func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == maxBacklog {
		b.dropped++
		return
	}
	b.waiting = append(b.waiting, waiting{time.Now(), record})
	wake.Up(b.added)
}

// Run records pending Events, in their order, until ctx ends.
func (b *Backlog) Run(ctx context.Context) {
	pace := flowcontrol.NewTokenBucketRateLimiter(perSecond, atOnce)
	for ctx.Err() == nil {
		next, ok := b.first()
		switch {
		case !ok:
			b.reportDropped()
			wait(ctx, b.added)
		case b.urgent() && time.Since(next.since) < patience:
			wait(ctx, time.After(look))
		case pace.Wait(ctx) == nil:
			next.record()
			b.removeFirst()
		}
	}
}

// first returns the Event that has waited longest; false: none is pending.
func (b *Backlog) first() (waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return waiting{}, false
	}
	return b.waiting[0], true
}

func (b *Backlog) removeFirst() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[0] = waiting{} // what it holds may go
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil
	}
}

// reportDropped logs the number of Events that were dropped for lack of room, once all others are recorded.
func (b *Backlog) reportDropped() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped > 0 {
		b.log.Warn("dropped Events, since more were pending than are kept", "dropped", b.dropped, "most", maxBacklog)
		b.dropped = 0
	}
}

// wait waits for something, or until ctx ends.
func wait[T any](ctx context.Context, something <-chan T) {
	select {
	case <-something:
	case <-ctx.Done():
	}
}
