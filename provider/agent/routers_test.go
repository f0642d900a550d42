package agent

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/disk"
)

func TestRouterThatLostItsSessionIsPassedByWhileAnotherHasOne(t *testing.T) {
	now := time.Now()
	state := func(addr string, up bool, losses uint64, since time.Duration) bgp.SessionState {
		return bgp.SessionState{Key: bgp.Key{Router: addr, Addr: vip(addr)}, Up: up, Losses: losses, Since: now.Add(-since)}
	}
	tests := []struct {
		name      string
		states    []bgp.SessionState
		inherited string
		want      string
		next      time.Duration
	}{
		{"one is lost", []bgp.SessionState{state("10.0.0.1", false, 1, 0), state("10.0.0.2", true, 0, 0)}, "", "map[10.0.0.1:true]", 0},
		{"one has not been up yet", []bgp.SessionState{state("10.0.0.1", false, 0, 5*time.Second), state("10.0.0.2", true, 0, 0)}, "", "map[]", 10 * time.Second},
		{"one was never up for 15 s", []bgp.SessionState{state("10.0.0.1", false, 0, 15*time.Second), state("10.0.0.2", true, 0, 0)}, "", "map[10.0.0.1:true]", 0},
		{"none was ever up", []bgp.SessionState{state("10.0.0.1", false, 0, time.Hour), state("10.0.0.2", false, 0, time.Hour)}, "", "map[]", 0},
		{"all are lost", []bgp.SessionState{state("10.0.0.1", false, 1, 0), state("10.0.0.2", false, 1, 0)}, "", "map[]", 0},
		{"another family's is up", []bgp.SessionState{state("10.0.0.1", false, 1, 0), state("fd00::2", true, 0, 0)}, "", "map[]", 0},
		{"inherited, none is up yet", []bgp.SessionState{state("10.0.0.1", false, 0, 0), state("10.0.0.2", false, 0, 0)}, "10.0.0.1", "map[10.0.0.1:true]", 0},
		{"inherited, the other is up", []bgp.SessionState{state("10.0.0.1", false, 0, 0), state("10.0.0.2", true, 0, 0)}, "10.0.0.1", "map[10.0.0.1:true]", 0},
		{"inherited, and up again", []bgp.SessionState{state("10.0.0.1", true, 0, 0), state("10.0.0.2", true, 0, 0)}, "10.0.0.1", "map[]", 0},
		{"inherited, and the other was lost since", []bgp.SessionState{state("10.0.0.1", false, 0, 0), state("10.0.0.2", false, 1, 0)}, "10.0.0.1", "map[]", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inherited := map[netip.Addr]bool{}
			if tt.inherited != "" {
				inherited[vip(tt.inherited)] = true
			}
			lost, next := lostRouters(tt.states, inherited, now)
			if got := fmt.Sprint(lost); got != tt.want || next != tt.next {
				t.Errorf("got %s, again in %v; want %s, %v", got, next, tt.want, tt.next)
			}
			if tt.states[0].Up && len(inherited) > 0 {
				t.Error("it is lost again as soon as its session goes down, whatever the others do")
			}
		})
	}
}

func TestAnAgentStartsWithTheRoutersThatTheOneBeforeHadLost(t *testing.T) {
	d, err := disk.Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	lost := map[netip.Addr]bool{vip("10.0.0.1"): true}
	if err := d.WriteAlive(disk.Handover{Drained: -1, Lost: lost}); err != nil {
		t.Fatal(err)
	}
	a := New(Options{Client: fake.NewClientset()})
	a.disk.saver.Dir = d
	a.restore()
	if fmt.Sprint(a.routers.down) != fmt.Sprint(lost) || fmt.Sprint(a.routers.inherited) != fmt.Sprint(lost) {
		t.Errorf("down %v, inherited %v", a.routers.down, a.routers.inherited)
	}
}

func TestAnAgentForgetsNoLostRouterWhenItHasNoTimeToAsk(t *testing.T) {
	a := New(Options{Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{})})
	a.routers.down = map[netip.Addr]bool{vip("10.0.0.1"): true}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a.report(ended)
	if fmt.Sprint(a.routers.down) != "map[10.0.0.1:true]" || a.routers.changed {
		t.Errorf("lost are %v", a.routers.down)
	}
}
