package provider

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"plinth.dev/plinth/uptime"
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
	h := &heartbeat{limit: limit, last: uptime.Now(), restart: restart}
	go h.beat()
	for _, c := range configs {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next, h} })
	}
}

// RoundTrip sends a request, unless it writes and the process was stopped.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !f.beats.alive(uptime.Now()) {
		return nil, errFenced
	}
	return f.next.RoundTrip(r)
}

// WrappedRoundTripper has the client cancel a request that takes too long.
func (f fence) WrappedRoundTripper() http.RoundTripper { return f.next }

// heartbeat notices when the process was stopped: its beats are too far apart.
type heartbeat struct {
	limit   time.Duration
	restart func()

	mu     sync.Mutex
	last   time.Duration
	missed bool
}

func (h *heartbeat) beat() {
	for h.alive(uptime.Now()) {
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
