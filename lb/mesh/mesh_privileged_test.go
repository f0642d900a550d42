//go:build privileged && timing

package mesh

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
)

func TestAMachineThatIsCutOffIsDownWithinItsBound(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	var took []time.Duration
	for range 10 {
		cut := uptime.Now()
		run(t, "ip -n "+all[2].ns+" link set eth0 down")
		for _, m := range all[:2] {
			took = append(took, m.when(cut, all[2], advertise.Down)-cut)
			if seen := m.seen(cut, all[2]); strings.Contains(seen, "holding") {
				t.Errorf("%s saw %s", m.ns, seen)
			}
		}
		back := uptime.Now()
		run(t, "ip -n "+all[2].ns+" link set eth0 up")
		allUp([]*machine{all[0], all[2]}, back)
		all[1].when(back, all[2], advertise.Up)
	}
	slices.Sort(took)
	t.Logf("p50 %v, most of %d %v", took[len(took)/2], len(took), took[len(took)-1])
	if took[len(took)/2] > 350*ms || took[len(took)-1] > 600*ms {
		t.Errorf("it took %v", took)
	}
}

func TestAKilledProcessIsWaitedForAndGoesOn(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	killed := all[2].signal(syscall.SIGKILL)
	for _, m := range all[:2] {
		t.Logf("holding after %v", m.when(killed, all[2], advertise.Holding)-killed)
	}
	_ = all[2].cmd.Wait()
	started := uptime.Now()
	all[2].start()
	for _, m := range all[:2] {
		t.Logf("up with its peers after %v", all[2].when(started, m, advertise.Up)-started)
		m.when(started, all[2], advertise.Up)
		if seen := m.seen(killed, all[2]); seen != "holding up" {
			t.Errorf("%s saw %s", m.ns, seen)
		}
	}
}

func TestAHandOverIsWaitedFor(t *testing.T) {
	all := lan(t, 3, func(p *part) { p.HandOver = 30 })
	allUp(all, 0)
	ended := all[2].signal(syscall.SIGTERM)
	_ = all[2].cmd.Wait()
	for _, m := range all[:2] {
		m.when(ended, all[2], advertise.Holding)
	}
	started := uptime.Now()
	all[2].start()
	for _, m := range all[:2] {
		t.Logf("up with its peers after %v", all[2].when(started, m, advertise.Up)-started)
		m.when(started, all[2], advertise.Up)
		if seen := m.seen(ended, all[2]); seen != "holding up" {
			t.Errorf("%s saw %s", m.ns, seen)
		}
	}
}

func TestAStoppedProcessTrustsNothingThatItSleptThrough(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	stopped := all[2].signal(syscall.SIGSTOP)
	all[0].when(stopped, all[2], advertise.Holding)
	all[0].when(stopped, all[2], advertise.Down)     // after the restart time
	run(t, "ip -n "+all[2].ns+" link set eth0 down") // what comes is what waits in its sockets
	resumed := all[2].signal(syscall.SIGCONT)
	all[2].when(resumed, all[0], advertise.Down)
	all[2].mu.Lock()
	for _, r := range all[2].all {
		if r.At >= resumed && r.sees(all[0]).Standing == advertise.Down {
			if r.Until > resumed {
				t.Errorf("%v after it was resumed it answers until %v", r.At-resumed, r.Until-resumed)
			}
			break
		}
	}
	all[2].mu.Unlock()
	back := uptime.Now()
	run(t, "ip -n "+all[2].ns+" link set eth0 up")
	all[2].when(back, all[0], advertise.Up)
	all[0].when(back, all[2], advertise.Up)
}

// Its sessions time out one after the other, and come up again at once, or within a second (RFC 5880, section 6.8.3): who
// takes over in between takes from those that are there. Such a one may be holding for a moment, and keeps what it has.
func TestAStoppedProcessTakesNobodyForGone(t *testing.T) {
	all := lan(t, 4, nil)
	allUp(all, 0)
	for range 3 {
		stopped := all[3].signal(syscall.SIGSTOP)
		for _, m := range all[:3] {
			m.when(stopped, all[3], advertise.Holding)
		}
		resumed := all[3].signal(syscall.SIGCONT)
		for _, m := range all[:3] {
			m.when(resumed, all[3], advertise.Up)
		}
		for _, m := range all[:3] {
			if seen := all[3].seen(resumed, m); strings.Contains(seen, "down") {
				t.Errorf("once it goes on it sees %s as %s", m.ns, seen)
			}
		}
	}
}

func TestUDPThatIsFilteredIsNotWaitedForForEver(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	cut := uptime.Now()
	run(t, "ip netns exec "+all[2].ns+" nft 'add table inet f; add chain inet f in { type filter hook input priority 0; }; add chain inet f out { type filter hook output priority 0; }; add rule inet f in udp dport 3784 drop; add rule inet f out udp dport 3784 drop'")
	all[0].when(cut, all[2], advertise.Holding)
	if took := all[0].when(cut, all[2], advertise.Down) - cut; took < 5*time.Second || took > 6*time.Second {
		t.Errorf("it was waited for for %v, want the restart time", took)
	}
}

func TestALossInOneDirectionIsSeenByBoth(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	cut := uptime.Now()
	run(t, "ip netns exec "+all[2].ns+" nft 'add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in udp dport 3784 ip saddr 10.77.0.1 drop'")
	all[0].when(cut, all[2], advertise.Down)
	all[2].when(cut, all[0], advertise.Down)
	if seen := all[1].seen(cut, all[2]); seen != "" && seen != "up" {
		t.Errorf("whom it does not concern saw %s", seen)
	}
}

func TestLeavingIsToldAndTheWitnessAnswers(t *testing.T) {
	all := lan(t, 5, func(p *part) {
		p.Leaving = p.Self == 4
		p.Witness = append(p.Witness, subnet.Addr().Next(), address(253))
	})
	for _, m := range all[:4] {
		m.when(0, all[4], advertise.Leaving)
		all[4].when(0, m, advertise.Up)
	}
	for begin := time.Now(); ; time.Sleep(ms) {
		all[0].mu.Lock()
		last := all[0].all[len(all[0].all)-1]
		all[0].mu.Unlock()
		if last.State[0].Witness == advertise.WitnessAnswers {
			break
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%+v", last)
		}
	}
}
