package vip

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/lb/ipam"
)

// gauge returns the value of a metric without labels.
func gauge(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(c)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestRestThatIsOverIsNotCounted(t *testing.T) {
	h := newHeld(t)
	at := noon
	h.now = func() time.Time { return at }
	h.state.Quarantine([]ipam.Quarantined{ipam.Quarantined{Addr: h.addr, Owner: h.key(0), Until: noon.Add(5 * time.Minute)}}, h.now())
	h.state.Quarantine([]ipam.Quarantined{ipam.Quarantined{Addr: h.addr.Next(), Owner: h.key(1), Until: noon.Add(ipam.QuarantineTime)}}, h.now())
	for _, tt := range []struct {
		after time.Duration
		want  float64
	}{{0, 2}, {5 * time.Minute, 1}, {11 * time.Minute, 0}} {
		at = noon.Add(tt.after)
		if got := gauge(t, vipCollector{h.Controller}, "plinth_vips_resting"); got != tt.want {
			t.Errorf("after %v %v addresses rest, want %v", tt.after, got, tt.want)
		}
	}
}
