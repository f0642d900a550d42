package provider

import (
	"errors"
	"net/http"
	"sync"
	"time"

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

// Fence has the clients made from config write nothing once this process was stopped
// for longer than limit, and calls restart then. What it was about to write at that
// moment may still go out.
func Fence(config *rest.Config, limit time.Duration, restart func()) {
	h := &heartbeat{limit: limit, last: time.Now(), restart: restart}
	go h.beat()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next, h} })
}

// RoundTrip sends a request, unless it writes and the process was stopped.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !f.beats.alive(time.Now()) {
		return nil, errFenced
	}
	return f.next.RoundTrip(r)
}

// heartbeat notices when the process was stopped: its beats are too far apart.
type heartbeat struct {
	limit   time.Duration
	restart func()

	mu     sync.Mutex
	last   time.Time
	missed bool
}

func (h *heartbeat) beat() {
	for h.alive(time.Now()) {
		time.Sleep(h.limit / 10)
	}
}

// alive notes that the process runs at the time now, and reports whether it has run
// all the time.
func (h *heartbeat) alive(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	gap := now.Sub(h.last)
	if wall := now.Round(0).Sub(h.last.Round(0)); wall > gap {
		gap = wall // the monotonic clock does not run while a machine is suspended
	}
	if gap > h.limit && !h.missed {
		h.missed = true
		go h.restart()
	}
	h.last = now
	return !h.missed
}
