package agent

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
)

// collected has the metrics of links alone collected.
type collected struct{ *links }

func (collected) Describe(chan<- *prometheus.Desc)      {}
func (c collected) Collect(ch chan<- prometheus.Metric) { c.links.collect(ch) }

func TestWhatTheAuditAndTheWireBothKnowIsToldOnce(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	other, own := netip.MustParseAddr("192.168.1.9"), netip.MustParseAddr("192.168.1.200")
	f.conflicts[own] = onlink.MAC{5: 200}
	l := startLinks(t, f)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.9": {"w2"}, "192.168.1.200": {"w1"}})}})
	f.until(t, own)
	waitFor(t, "the conflict", func() bool { return len(l.problems()) > 0 })
	conflict := lb.LinkProblem{On: own.String(), Reason: lb.AddressConflict, Detail: "00:00:00:00:00:c8"}
	silent := lb.LinkProblem{On: other.String(), Reason: lb.NotAnsweredOnWire, Detail: "w2"}
	l.mu.Lock()
	l.audited = map[netip.Addr]lb.LinkProblem{own: conflict, other: silent}
	l.mu.Unlock()
	if got := l.problems(); !slices.Equal(got, []lb.LinkProblem{silent, conflict}) {
		t.Errorf("problems %v", got)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collected{l})
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsShownOfALinkIsTold(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	f.conflicts[vip] = onlink.MAC{5: 200}
	told := make(chan struct{}, 100)
	l := newLinksOf(fakeWire{f}, fakeMesh{f}, func() { told <- struct{}{} })
	beginLinks(t, l)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2"}})}})
	f.until(t, vip)
	waitFor(t, "it is shown", func() bool {
		s := l.status()
		return len(s) == 1 && s[0].VIPs[0].Answers && s[0].VIPs[0].Conflict != ""
	})
	for what, change := range map[string]func(){
		"a machine that owns nothing": func() { f.set("w3", advertise.Down) },
		"the MAC of another host": func() {
			f.mu.Lock()
			f.conflicts[vip] = onlink.MAC{5: 201}
			f.mu.Unlock()
			f.wire <- struct{}{}
		},
	} {
		for len(told) > 0 {
			<-told
		}
		before := l.status()
		change()
		waitFor(t, "it is shown", func() bool { return !reflect.DeepEqual(l.status(), before) })
		waitFor(t, what, func() bool { return len(told) > 0 })
	}
}
