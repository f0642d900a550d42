package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves /healthz, /readyz, /metrics and /status.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /status", a.serveStatus)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

// healthz fails when the agent is stuck. Sessions that are down are no reason to
// start it anew.
func (a *Agent) healthz(w http.ResponseWriter, _ *http.Request) {
	if s := a.status.Load(); s.isStuck() {
		http.Error(w, fmt.Sprintf("no pass for %v", time.Since(s.passed).Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz succeeds once a plan has been carried out.
func (a *Agent) readyz(w http.ResponseWriter, _ *http.Request) {
	if s := a.status.Load(); !s.Ready {
		http.Error(w, "waiting for "+s.WaitingFor, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (a *Agent) serveStatus(w http.ResponseWriter, r *http.Request) {
	s := *a.status.Load()
	s.fill(a.o.Speaker.State(r.Context()), a.sources.LastSeen())
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s)
}
