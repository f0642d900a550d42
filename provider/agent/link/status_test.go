package link

import (
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/provider/agent/agenttest"
)

// collected has the metrics of links alone collected.
type collected struct{ *Links }

func (collected) Describe(chan<- *prometheus.Desc)      {}
func (c collected) Collect(ch chan<- prometheus.Metric) { c.Links.Collect(ch) }

func TestWhatTheAuditAndTheWireBothKnowIsToldOnce(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	other, own := netip.MustParseAddr("192.168.1.9"), netip.MustParseAddr("192.168.1.200")
	f.Conflicts[own] = onlink.MAC{5: 200}
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.9": {"w2"}, "192.168.1.200": {"w1"}})}})
	f.Until(t, own)
	waitFor(t, "the conflict", func() bool { return len(l.Problems()) > 0 })
	conflict := lb.LinkProblem{On: own.String(), Reason: lb.AddressConflict, Detail: "00:00:00:00:00:c8"}
	silent := lb.LinkProblem{On: other.String(), Reason: lb.NotAnsweredOnWire, Detail: "w2"}
	l.shown.mu.Lock()
	l.shown.audited = map[netip.Addr]lb.LinkProblem{own: conflict, other: silent}
	l.shown.mu.Unlock()
	if got := l.Problems(); !slices.Equal(got, []lb.LinkProblem{silent, conflict}) {
		t.Errorf("problems %v", got)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collected{l})
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsShownOfALinkIsTold(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	f.Conflicts[vip] = onlink.MAC{5: 200}
	told := make(chan struct{}, 100)
	l := NewOf(slog.Default(), agenttest.Wire{LAN: f}, agenttest.Mesh{LAN: f}, func() { told <- struct{}{} })
	beginLinks(t, l)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2"}})}})
	f.Until(t, vip)
	waitFor(t, "it is shown", func() bool {
		s := l.Status()
		return len(s) == 1 && s[0].VIPs[0].Answers && s[0].VIPs[0].Conflict != ""
	})
	for what, change := range map[string]func(){
		"a machine that owns nothing": func() { f.SetStanding("w3", advertise.Down) },
		"the MAC of another host": func() {
			f.Mu.Lock()
			f.Conflicts[vip] = onlink.MAC{5: 201}
			f.Mu.Unlock()
			f.WireChanged <- struct{}{}
		},
	} {
		for len(told) > 0 {
			<-told
		}
		before := l.Status()
		change()
		waitFor(t, "it is shown", func() bool { return !reflect.DeepEqual(l.Status(), before) })
		waitFor(t, what, func() bool { return len(told) > 0 })
	}
}
