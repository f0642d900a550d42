package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	proxyEvery   = 2 * time.Second
	proxyTimeout = time.Second
)

// UnhealthyAfter is how many answers of "unhealthy" in a row count.
const UnhealthyAfter = 3

// Health asks kube-proxy whether it serves. Where it cannot be asked the answer is
// yes: its rules outlive it, and there are clusters without it. On a machine that has
// just booted, or that had no agent, there may be no rules that could: it is given time to
// come up.
type Health struct {
	url       string // empty: there is none
	changed   func()
	bootGrace time.Time // until then; zero: it has had the time

	mu      sync.Mutex
	asked   bool
	served  bool // at least once
	bad     int
	healthy bool
	genuine bool // what it said last is something that kube-proxy alone says
}

// Answer is the answer of kube-proxy to a question about its health.
type Answer int

// What kube-proxy can say.
const (
	Serves    Answer = iota
	Unhealthy        // it says itself that it does not serve
	Silent           // it cannot be asked
)

// NewHealth returns the health of what answers at a URL; empty: nobody does, and all is well.
func NewHealth(url string, changed func()) *Health {
	return &Health{url: url, changed: changed, healthy: true}
}

// GiveTime gives kube-proxy until then to come up. It is called before Run.
func (p *Health) GiveTime(until time.Time) { p.bootGrace = until }

// State is whether it serves, as far as it was asked.
func (p *Health) State() (healthy, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.healthy, p.asked
}

// Refuses reports whether kube-proxy says itself that it does not serve. Of one that has not answered yet nothing is known.
func (p *Health) Refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuses()
}

// refuses is Refuses with p.mu held.
func (p *Health) refuses() bool { return !p.healthy && p.bad > 0 }

// Run asks until the context ends. It is due to ask at once.
func (p *Health) Run(ctx context.Context) {
	tick := time.NewTicker(proxyEvery)
	defer tick.Stop()
	for {
		if p.Observe(p.ask(ctx), time.Now()) {
			p.changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Health) ask(ctx context.Context) Answer {
	if p.url == "" {
		return Serves
	}
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return Silent
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return Silent
	}
	p.recognize(res.Body)
	_ = res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable {
		return Unhealthy
	}
	return Serves
}

// recognize notes whether it is kube-proxy that answers, and not a program in its place, which may come while the agent
// runs: they do not say whether the Node is eligible. An answer that is cut off says neither.
func (p *Health) recognize(body io.Reader) {
	text, err := io.ReadAll(io.LimitReader(body, 1<<16))
	if err != nil {
		return
	}
	var said struct{ NodeEligible *bool }
	genuine := json.Unmarshal(text, &said) == nil && said.NodeEligible != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.genuine = genuine
}

// IsKubeProxy reports whether what answers is kube-proxy.
func (p *Health) IsKubeProxy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.genuine
}

// Observe takes one answer and reports whether the state changed, or whether kube-proxy refuses. At the start, when
// nothing is announced yet, one answer is enough.
func (p *Health) Observe(answer Answer, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, refused, first := p.healthy, p.refuses(), !p.asked
	p.asked = true
	switch {
	case answer == Unhealthy:
		if p.bad++; first || p.bad >= UnhealthyAfter {
			p.healthy = false
		}
	case answer == Silent && !p.served && now.Before(p.bootGrace):
		p.bad, p.healthy = 0, false
	default:
		p.bad, p.healthy = 0, true
		p.served = p.served || answer == Serves
	}
	return first || p.healthy != was || p.refuses() != refused
}
