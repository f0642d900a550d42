package agent

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	proxyEvery    = 2 * time.Second
	proxyTimeout  = time.Second
	proxyPatience = 3 // answers of "unhealthy" in a row until it counts
)

// proxy asks kube-proxy whether it serves. Where it cannot be asked the answer is
// yes: its rules outlive it, and there are clusters without it.
type proxy struct {
	url     string
	changed func()

	mu      sync.Mutex
	asked   bool
	bad     int
	healthy bool
}

func newProxy(url string, changed func()) *proxy {
	return &proxy{url: url, changed: changed, healthy: true}
}

func (p *proxy) state() (healthy, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.healthy, p.asked
}

// run asks until the context ends. It is due to ask at once.
func (p *proxy) run(ctx context.Context) {
	tick := time.NewTicker(proxyEvery)
	defer tick.Stop()
	for {
		if p.hear(p.ask(ctx)) {
			p.changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask reports whether kube-proxy answered that it does not serve.
func (p *proxy) ask(ctx context.Context) (unhealthy bool) {
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusServiceUnavailable
}

// hear takes one answer and reports whether the state changed. At the start, when
// nothing is announced yet, one answer is enough.
func (p *proxy) hear(unhealthy bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, first := p.healthy, !p.asked
	p.asked = true
	if !unhealthy {
		p.bad, p.healthy = 0, true
		return first || !was
	}
	p.bad++
	if first || p.bad >= proxyPatience {
		p.healthy = false
	}
	return first || p.healthy != was
}
