package leader

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"plinth.dev/plinth/uptime"
)

// What whoever would write is answered after the fence was closed.
var (
	errStalled = errors.New("this process was stopped for so long that another one may lead by now")
	errEnding  = errors.New("this process is about to end, and writes no more")
)

// SelfFence keeps its own process from writing: after it was stopped for longer than it can
// be sure to lead (a host without time for it, a machine that was suspended), and once it is
// to end. The leader election notices the first, too, but tries to renew its lease for the
// whole renew deadline, while controllers act on what was true before.
type SelfFence struct {
	stalls *stallDetector

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup // writes; none begins once it is closed
}

// NewSelfFence returns a fence that is closed once this process was stopped for longer than
// limit, and calls restart then. What it was about to write at that moment may still go out.
func NewSelfFence(limit time.Duration, restart func()) *SelfFence {
	f := &SelfFence{stalls: &stallDetector{limit: limit, last: uptime.Now(), onStall: restart}}
	go f.stalls.run()
	return f
}

// Enclose makes the clients that are made from a config, from now on, write through the fence.
func (f *SelfFence) Enclose(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next, f} })
}

// Drain closes the fence, and returns nil when what was in flight is answered.
func (f *SelfFence) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	drained := make(chan struct{})
	go func() { f.inFlight.Wait(); close(drained) }()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin counts a write as in flight, unless the fence is closed.
func (f *SelfFence) begin() error {
	if !f.stalls.running(uptime.Now()) {
		return errStalled
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errEnding
	}
	f.inFlight.Add(1)
	return nil
}

type fenced struct {
	next  http.RoundTripper
	fence *SelfFence
}

// RoundTrip sends a request, unless it writes and the fence is closed.
func (t fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return t.next.RoundTrip(request)
	}
	if err := t.fence.begin(); err != nil {
		return nil, err
	}
	defer t.fence.inFlight.Done()
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper makes the client cancel a request that takes too long.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// stallDetector notices when the process was stopped: it is seen running too seldom.
type stallDetector struct {
	limit   time.Duration
	onStall func()

	mu      sync.Mutex
	last    time.Duration // when it was seen running, on the clock of package uptime
	stalled bool
}

func (d *stallDetector) run() {
	for d.running(uptime.Now()) {
		time.Sleep(d.limit / 10)
	}
}

// running notes that the process runs at the time now, and reports whether it has run
// all the time.
func (d *stallDetector) running(now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now-d.last > d.limit && !d.stalled {
		d.stalled = true
		go d.onStall()
	}
	d.last = max(d.last, now)
	return !d.stalled
}
