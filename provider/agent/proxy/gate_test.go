package proxy

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/wait"
)

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.True(t, 10*time.Second, time.Millisecond, what, func() (bool, string) { return ok(), "it is not so" })
}

// rules are kube-proxy's, as a test has them.
type rules struct {
	mu    sync.Mutex
	have  map[netip.Addr]advertise.Evidence // absent, if not there
	asked int
	each  int           // questions, of all rounds
	takes time.Duration // each question
	slow  bool          // each takes a connection
}

func (r *rules) Connects(kubeproxy.Round) bool { return r.slow }

func (r *rules) Ask(_ context.Context, _ kubeproxy.Round, questions []advertise.Question) (all []advertise.Answer) {
	r.mu.Lock()
	r.asked++
	r.each += len(questions)
	r.mu.Unlock()
	time.Sleep(r.takes * time.Duration(len(questions)))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range questions {
		e := r.have[q.VIP]
		if e == "" {
			e = advertise.Absent
		}
		all = append(all, advertise.Answer{Question: q, Evidence: e})
	}
	return all
}

func (r *rules) set(vip netip.Addr, e advertise.Evidence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have[vip] = e
}

func (r *rules) rounds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// askedOf starts an asker, and returns how to ask it and what tells of answers.
func askedOf(t *testing.T, r *rules) (a *asker, told <-chan struct{}) {
	changed := make(chan struct{}, 100)
	a = newAsker(r, func() { changed <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return a, changed
}

var askedVIP = netip.MustParseAddr("203.0.113.5")

func TestKubeProxyIsAskedOnlyWhileSomethingIsPending(t *testing.T) {
	r := &rules{have: map[netip.Addr]advertise.Evidence{}}
	a, told := askedOf(t, r)
	time.Sleep(3 * askEvery) // nothing is to happen
	if n := r.rounds(); n > 0 {
		t.Errorf("asked %d times for nothing", n)
	}
	a.rounds.Put(round{questions: []advertise.Question{{VIP: askedVIP}}})
	waitFor(t, "it asks again and again", func() bool { return r.rounds() > 3 })
	if len(told) > 0 {
		t.Error("it tells that there are no rules")
	}
	r.set(askedVIP, advertise.Present)
	<-told
	if got, _, _ := a.take(); len(got) == 0 || got[0].Evidence != advertise.Present {
		t.Errorf("answers %v", got)
	}
	a.rounds.Put(round{})
	waitFor(t, "it has heard that nothing is to be asked", func() bool { return len(a.rounds) == 0 })
	n := r.rounds() + 1 // one that had begun
	time.Sleep(3 * askEvery)
	if now := r.rounds(); now > n {
		t.Errorf("asked %d times after it was told to stop", now-n)
	}
}

// A round of very many takes long, and asking few of them again does not.
func TestTheFewWithoutAnAnswerDoNotWaitForTheManyThatHaveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 3000
		all := make([]advertise.Question, many)
		for i := range all {
			all[i].VIP = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
		}
		r := &rules{have: map[netip.Addr]advertise.Evidence{}, takes: time.Second / many}
		for _, q := range all[1:] {
			r.have[q.VIP] = advertise.Present
		}
		a, told := askedOf(t, r)
		a.rounds.Put(round{questions: all})
		<-told
		r.set(all[0].VIP, advertise.Present)
		began := time.Now()
		a.rounds.Put(round{questions: all[:1]})
		<-told
		if took := time.Since(began); took > time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestAQuestionThatIsUrgentDoesNotWaitForOnesThatAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := advertise.Question{VIP: netip.MustParseAddr("203.0.113.9"), Overdue: true}
		r := &rules{have: map[netip.Addr]advertise.Evidence{askedVIP: advertise.Present}}
		a, told := askedOf(t, r)
		a.rounds.Put(round{questions: []advertise.Question{late}})
		waitFor(t, "the overdue one is asked", func() bool { return r.rounds() == 1 })
		began := time.Now()
		a.rounds.Put(round{questions: []advertise.Question{late, {VIP: askedVIP}}})
		<-told
		if took := time.Since(began); took > askOverdueEvery/2 {
			t.Errorf("answered after %v", took)
		}
	})
}

func aSavedOffer(name, vip string) advertise.Offer {
	return advertise.Offer{
		Service: lb.ServiceKey{Namespace: "prod", Name: name}, VIP: netip.MustParseAddr(vip), Endpoints: advertise.Endpoints{Any: 1},
		Frontend: advertise.Frontend{Ports: "80/TCP", HealthCheckPort: 31999},
	}
}
