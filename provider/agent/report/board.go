package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/link"
)

// Board is the agent's status and metrics, as its listeners serve them.
type Board struct {
	*Metrics
	ask    Ask
	status atomic.Pointer[Status]
}

// Ask are the functions that are called at each request, from any goroutine.
type Ask struct {
	Sessions func(context.Context) []bgp.SessionState
	LastSeen func() map[string]time.Duration // when the API server said anything about each kind
	Links    *link.Links                     // nil: none is answered on
}

// NewBoard returns the board of a Node's agent, which waits for its first pass.
func NewBoard(node string, of Ask) *Board {
	b := &Board{ask: of}
	b.Metrics = newMetrics(b)
	b.status.Store(&Status{Place: Place{Node: node}, State: State{WaitingFor: "the first pass"}})
	return b
}

// Show sets the status that is shown, with the basis of its lists.
func (b *Board) Show(s *Status, of Basis) { b.status.Store(s.of(of)) }

// IsStuck reports whether no pass was made for long.
func (b *Board) IsStuck() bool { return b.status.Load().isStuck() }

// Handler serves /healthz, /readyz, /metrics and /status.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", b.healthz)
	mux.HandleFunc("GET /readyz", b.readyz)
	mux.HandleFunc("GET /status", b.serveStatus)
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.Metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

// healthz fails when the agent is stuck. Sessions that are down are no reason to
// start it anew.
func (b *Board) healthz(w http.ResponseWriter, _ *http.Request) {
	if s := b.status.Load(); s.isStuck() {
		http.Error(w, fmt.Sprintf("no pass for %v", time.Since(s.basis.passed).Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz succeeds once a plan has been carried out.
func (b *Board) readyz(w http.ResponseWriter, _ *http.Request) {
	if s := b.status.Load(); !s.Ready {
		http.Error(w, "waiting for "+s.WaitingFor, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (b *Board) serveStatus(w http.ResponseWriter, r *http.Request) {
	s := *b.status.Load()
	s.fill(b.ask.Sessions(r.Context()), b.ask.LastSeen())
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s)
}
