package agent

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"plinth.dev/plinth/lb/advertise"
)

// passing are VIPs that pass, and whose rules a test has.
func passing(n int) (*rules, []advertise.Question) {
	r := &rules{have: map[netip.Addr]advertise.Evidence{}}
	all := make([]advertise.Question, n)
	for i := range all {
		all[i].VIP = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
		r.have[all[i].VIP] = advertise.Present
	}
	return r, all
}

func (r *rules) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.have)
}

func (r *rules) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.each
}

func TestThatAllRulesAreGoneIsFoundWithinThreeLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(3000)
		a, told := askedOf(t, r)
		a.rounds.put(round{passing: all})
		time.Sleep(31 * lookEvery)
		if n := r.questions(); n < 3000 || n > 3100 {
			t.Errorf("%d questions in half a minute", n)
		}
		if len(told) > 0 {
			t.Fatal("it tells of rules that are there")
		}
		r.flush()
		began := time.Now()
		<-told
		if _, gone := a.take(); len(gone) != 3000 {
			t.Errorf("%d are gone", len(gone))
		}
		if took := time.Since(began); took > 3*lookEvery {
			t.Errorf("found after %v", took)
		}
	})
}

func TestWhatWasNeverSeenOrIsBackAtTheNextLookIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(2)
		delete(r.have, all[1].VIP)
		a, told := askedOf(t, r)
		a.rounds.put(round{passing: all})
		time.Sleep(5*lookEvery + lookEvery/2)
		r.flush()
		time.Sleep(lookEvery) // one look
		r.set(all[0].VIP, advertise.Present)
		time.Sleep(5 * lookEvery)
		if len(told) > 0 {
			_, gone := a.take()
			t.Errorf("it tells that %v are gone", gone)
		}
	})
}

// A Service whose ports change has other rules, which kube-proxy may not have yet.
func TestRulesForOtherPortsHaveToBeSeenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(1)
		a, told := askedOf(t, r)
		a.rounds.put(round{passing: all})
		time.Sleep(5*lookEvery + lookEvery/2)
		r.flush()
		a.rounds.put(round{passing: []advertise.Question{{VIP: all[0].VIP, Frontend: advertise.Frontend{Ports: "81/TCP"}}}})
		time.Sleep(5 * lookEvery)
		if len(told) > 0 {
			t.Error("it tells that rules are gone that were never seen")
		}
	})
}

func TestWhereALookIsAConnectionThereIsOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(3000)
		r.slow = true
		a, _ := askedOf(t, r)
		a.rounds.put(round{passing: all})
		time.Sleep(10*lookEvery + lookEvery/2)
		if n := r.questions(); n != 10 {
			t.Errorf("%d connections in ten looks", n)
		}
	})
}
