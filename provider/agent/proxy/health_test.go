package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProxyCountsAsUnhealthyAfterAFewWords(t *testing.T) {
	p := NewHealth("", nil)
	if healthy, asked := p.State(); !healthy || asked {
		t.Error("before it was asked")
	}
	for i, s := range []struct {
		says             Answer
		changed, healthy bool
	}{
		{Serves, true, true},
		{Unhealthy, false, true}, {Unhealthy, false, true}, {Silent, false, true},
		{Unhealthy, false, true}, {Unhealthy, false, true}, {Unhealthy, true, false}, {Unhealthy, false, false},
		{Serves, true, true}, {Silent, false, true},
	} {
		changed := p.Observe(s.says, time.Now())
		if healthy, _ := p.State(); changed != s.changed || healthy != s.healthy {
			t.Errorf("answer %d: changed %v, healthy %v", i, changed, healthy)
		}
		if p.Refuses() == s.healthy {
			t.Errorf("answer %d: it refuses %v", i, p.Refuses())
		}
	}
}

func TestProxyOfAMachineThatHasJustBootedIsGivenTime(t *testing.T) {
	boot := time.Now()
	type heard struct {
		after            time.Duration
		says             Answer
		changed, healthy bool
	}
	refused := map[string]int{} // how often it said itself that it does not serve
	tests := []struct {
		name string
		all  []heard
	}{
		{"it comes up", []heard{{0, Silent, true, false}, {2 * time.Second, Silent, false, false}, {4 * time.Second, Serves, true, true}}},
		{"it comes up in steps", []heard{
			{0, Silent, true, false}, {2 * time.Second, Unhealthy, true, false}, {4 * time.Second, Silent, true, false}, {6 * time.Second, Serves, true, true},
		}},
		{"it is there, and restarts", []heard{{0, Serves, true, true}, {2 * time.Second, Silent, false, true}}},
		{"there is none", []heard{{0, Silent, true, false}, {28 * time.Second, Silent, false, false}, {31 * time.Second, Silent, true, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewHealth("", nil)
			p.bootGrace = boot.Add(30 * time.Second)
			for _, h := range tt.all {
				changed := p.Observe(h.says, boot.Add(h.after))
				if healthy, _ := p.State(); changed != h.changed || healthy != h.healthy {
					t.Errorf("after %v: changed %v, healthy %v", h.after, changed, healthy)
				}
				if p.Refuses() {
					refused[tt.name]++
				}
			}
		})
	}
	if d := cmp.Diff(map[string]int{"it comes up in steps": 1}, refused); d != "" {
		t.Error(d)
	}
}

func TestProxyThatCannotBeAskedIsSilentAndNoneServes(t *testing.T) {
	for url, want := range map[string]Answer{"http://127.0.0.1:1/healthz": Silent, "": Serves} {
		if got := NewHealth(url, nil).ask(t.Context()); got != want {
			t.Errorf("%q: got %d, want %d", url, got, want)
		}
	}
}

func TestKubeProxyIsToldFromAProgramInItsPlace(t *testing.T) {
	const ofKubeProxy = `{"lastUpdated":"2026-01-01T00:00:00Z","currentTime":"2026-01-01T00:00:00Z","nodeEligible":true,"status":{}}`
	const ofCilium = `{"lastUpdated": "2026-01-01 00:00:00 +0000 UTC","currentTime": "2026-01-01 00:00:00 +0000 UTC"}`
	for _, c := range []struct {
		bodies []string // one after another
		want   bool
	}{
		{[]string{ofKubeProxy}, true},
		{[]string{ofCilium}, false},
		{[]string{"ok"}, false},
		{[]string{""}, false},
		{[]string{ofKubeProxy, ofCilium}, false},
		{[]string{ofKubeProxy, "ok"}, false},
		{[]string{ofCilium, ofKubeProxy}, true},
		{[]string{ofKubeProxy, "cut off"}, true},
	} {
		p := NewHealth("", func() {})
		for _, body := range c.bodies {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if body == "cut off" {
					w.Header().Set("Content-Length", "100")
				}
				_, _ = w.Write([]byte(body))
			}))
			p.url = srv.URL
			p.ask(t.Context())
			srv.Close()
		}
		if got := p.IsKubeProxy(); got != c.want {
			t.Errorf("%q: %v", c.bodies, got)
		}
	}
}
