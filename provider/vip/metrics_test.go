package vip

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// series are the samples whose names begin so, as they are scraped.
func series(t *testing.T, c prometheus.Collector, prefix string) []string {
	t.Helper()
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(c)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if strings.HasPrefix(f.GetName(), prefix) {
				out = append(out, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue()))
			}
		}
	}
	return out
}

func TestPoolsSayHowManyAddressesAreFree(t *testing.T) {
	h := newHeldWith(t, `{name: public, addresses: [192.0.2.0/29, "2001:db8::/64"], exclude: [192.0.2.7], reserved: {192.0.2.6: d/x}}, {name: empty, addresses: [198.51.100.1], exclude: [198.51.100.1]}`)
	at := noon
	h.now = func() time.Time { return at }
	h.settled(0)
	h.state.Quarantine([]ipam.Quarantined{{Addr: h.addr.Next(), Owner: h.key(1), Until: noon.Add(5 * time.Minute)}}, h.now())
	for _, tt := range []struct {
		after time.Duration
		free  string
	}{{0, "4"}, {6 * time.Minute, "5"}} {
		at = noon.Add(tt.after)
		want := []string{
			"plinth_pool_addresses{family=IPv4,pool=public} 7", "plinth_pool_addresses{family=IPv6,pool=public} 1.8446744073709552e+19",
			"plinth_pool_addresses_free{family=IPv4,pool=public} " + tt.free, "plinth_pool_addresses_free{family=IPv6,pool=public} 1.8446744073709552e+19",
		}
		if diff := cmp.Diff(want, series(t, vipCollector{h.Controller}, "plinth_pool_")); diff != "" {
			t.Errorf("after %v: %s", tt.after, diff)
		}
	}
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
