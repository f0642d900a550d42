package agent

import (
	"context"
	"encoding/json"
	"io"
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
// yes: its rules outlive it, and there are clusters without it. On a machine that has
// just booted, or that had no agent, there may be no rules that could: it is given time to
// come up.
type proxy struct {
	url     string // empty: there is none
	changed func()
	comesUp time.Time // until then; zero: it has had the time

	mu      sync.Mutex
	asked   bool
	served  bool // at least once
	bad     int
	healthy bool
	genuine bool // what it said last is something that kube-proxy alone says
}

// answer is what kube-proxy says.
type answer int

const (
	serves answer = iota
	unhealthy
	silent
)

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
		if p.hear(p.ask(ctx), time.Now()) {
			p.changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *proxy) ask(ctx context.Context) answer {
	if p.url == "" {
		return serves
	}
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return silent
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return silent
	}
	p.recognize(res.Body)
	_ = res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable {
		return unhealthy
	}
	return serves
}

// recognize notes whether it is kube-proxy that answers, and not a program in its place, which may come while the agent
// runs: they do not say whether the Node is eligible. An answer that is cut off says neither.
func (p *proxy) recognize(body io.Reader) {
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

func (p *proxy) isKubeProxy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.genuine
}

// hear takes one answer and reports whether the state changed. At the start, when
// nothing is announced yet, one answer is enough.
func (p *proxy) hear(a answer, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, first := p.healthy, !p.asked
	p.asked = true
	switch {
	case a == unhealthy:
		if p.bad++; first || p.bad >= proxyPatience {
			p.healthy = false
		}
	case a == silent && !p.served && now.Before(p.comesUp):
		p.healthy = false
	default:
		p.bad, p.healthy = 0, true
		p.served = p.served || a == serves
	}
	return first || p.healthy != was
}
