package proxy

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

func TestThatAllRulesAreGoneIsFoundWithinFourLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(3000)
		a, told := askedOf(t, r)
		a.rounds.Put(round{passing: all})
		time.Sleep(31 * lookEvery)
		if n := r.questions(); n < 3000 || n > 3100 {
			t.Errorf("%d questions in half a minute", n)
		}
		<-told
		if _, there, gone := a.take(); len(there) != 3000 || len(gone) > 0 {
			t.Fatalf("%d are there and %d are gone", len(there), len(gone))
		}
		r.flush()
		began := time.Now()
		<-told
		if _, _, gone := a.take(); len(gone) != 3000 {
			t.Errorf("%d are gone", len(gone))
		}
		if took := time.Since(began); took > 4*lookEvery {
			t.Errorf("found after %v", took)
		}
	})
}

func TestWhatWasNeverSeenOrIsBackAtTheThirdLookIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(2)
		delete(r.have, all[1].VIP)
		a, _ := askedOf(t, r)
		a.rounds.Put(round{passing: all})
		time.Sleep(5*lookEvery + lookEvery/2)
		r.flush()
		time.Sleep((goneAfter - 1) * lookEvery)
		r.set(all[0].VIP, advertise.Present)
		time.Sleep(5 * lookEvery)
		if _, there, gone := a.take(); len(there) != 1 || len(gone) > 0 {
			t.Errorf("it tells that %v are there and %v are gone", there, gone)
		}
	})
}

// A Service whose ports change has other rules, which kube-proxy may not have yet.
func TestRulesForOtherPortsHaveToBeSeenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(1)
		a, _ := askedOf(t, r)
		a.rounds.Put(round{passing: all})
		time.Sleep(5*lookEvery + lookEvery/2)
		r.flush()
		a.rounds.Put(round{passing: []advertise.Question{{VIP: all[0].VIP, Frontend: advertise.Frontend{Ports: "81/TCP"}}}})
		time.Sleep(5 * lookEvery)
		if _, _, gone := a.take(); len(gone) > 0 {
			t.Error("it tells that rules are gone that were never seen")
		}
	})
}

func TestWhereALookIsAConnectionThereIsOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all := passing(3000)
		r.slow = true
		a, _ := askedOf(t, r)
		a.rounds.Put(round{passing: all})
		time.Sleep(10*lookEvery + lookEvery/2)
		if n := r.questions(); n != 10 {
			t.Errorf("%d connections in ten looks", n)
		}
	})
}
