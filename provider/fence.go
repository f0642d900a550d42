package provider

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// errFenced is the answer to whoever would write after this process was stopped.
var errFenced = errors.New("this process was stopped for so long that another one may lead by now")

// fence keeps a process from writing that was stopped for longer than it can be sure
// to lead: a host without time for it, a machine that was suspended. The leader
// election notices, too, but tries to renew its lease for the whole renew deadline,
// while controllers act on what was true before.
type fence struct {
	next  http.RoundTripper
	beats *heartbeat
}

// Fence has the clients made from any of the configs write nothing once this process
// was stopped for longer than limit, and calls restart then. What it was about to write
// at that moment may still go out.
func Fence(limit time.Duration, restart func(), configs ...*rest.Config) {
	h := &heartbeat{limit: limit, last: sinceBoot(), restart: restart}
	go h.beat()
	for _, c := range configs {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next, h} })
	}
}

// RoundTrip sends a request, unless it writes and the process was stopped.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !f.beats.alive(sinceBoot()) {
		return nil, errFenced
	}
	return f.next.RoundTrip(r)
}

// heartbeat notices when the process was stopped: its beats are too far apart.
type heartbeat struct {
	limit   time.Duration
	restart func()

	mu     sync.Mutex
	last   time.Duration
	missed bool
}

func (h *heartbeat) beat() {
	for h.alive(sinceBoot()) {
		time.Sleep(h.limit / 10)
	}
}

// alive notes that the process runs at the time now, and reports whether it has run
// all the time.
func (h *heartbeat) alive(now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now-h.last > h.limit && !h.missed {
		h.missed = true
		go h.restart()
	}
	h.last = max(h.last, now)
	return !h.missed
}

// sinceBoot is the time since the machine started. It counts the time for which the
// machine was suspended, as Go's clock does not, and nobody can set it, as they can
// the wall clock (CLOCK_BOOTTIME, Linux 2.6.39).
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // this kernel has no such clock, and then no fence
	}
	return time.Duration(t.Nano())
}
