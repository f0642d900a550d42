package mesh

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wait"
)

var loopback = netip.MustParsePrefix("127.0.9.0/24")

func host(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 9, n}) }

// between is the mesh of a machine with others, with timers for a machine that is busy.
func between(self byte, others ...byte) Config {
	c := Config{Subnet: loopback, Self: host(self), Timers: bfd.Timers{Interval: 100 * ms, Multiplier: 20}}
	for _, o := range others {
		c.Machines = append(c.Machines, Machine{Name: string('a' + rune(o)), Addr: host(o)})
	}
	return c
}

func begin(t *testing.T, o Options, c Config) *Mesh {
	t.Helper()
	m := New(o)
	t.Cleanup(func() { m.Close(context.Background(), 0) })
	if err := m.Set(t.Context(), []Config{c}); err != nil {
		t.Fatal(err)
	}
	return m
}

// until waits for the first link to be as it should.
func until(t *testing.T, m *Mesh, ok func(LinkState) bool) (link LinkState) {
	t.Helper()
	wait.True(t, 20*time.Second, time.Millisecond, "the first link", func() (bool, string) {
		s := m.State()
		if len(s) > 0 && ok(s[0]) {
			link = s[0]
			return true, ""
		}
		return false, fmt.Sprintf("%+v", s)
	})
	return link
}

func standing(i int, want advertise.Standing) func(LinkState) bool {
	return func(l LinkState) bool { return len(l.Machines) > i && l.Machines[i].Standing == want }
}

func TestSetLeavesTheSessionsOfThoseThatStay(t *testing.T) {
	a := begin(t, Options{}, between(1, 2, 3))
	b, c := begin(t, Options{}, between(2, 1, 3)), begin(t, Options{}, between(3, 1, 2))
	for _, m := range []*Mesh{a, b, c} {
		until(t, m, standing(0, advertise.Up))
		until(t, m, standing(1, advertise.Up))
	}
	was := a.State()[0].Machines[0]
	next := between(1, 2)
	next.Timers.Interval, next.Leaving = 200*ms, true
	if err := a.Set(t.Context(), []Config{next}); err != nil {
		t.Fatal(err)
	}
	until(t, c, standing(0, advertise.Down)) // its session was ended
	until(t, b, standing(0, advertise.Leaving))
	if now := a.State()[0]; len(now.Machines) != 1 || now.Machines[0] != was {
		t.Errorf("%+v, and the one that stays was %+v", now, was)
	}
	next.Leaving = false
	if err := a.Set(t.Context(), []Config{next}); err != nil {
		t.Fatal(err)
	}
	until(t, b, standing(0, advertise.Up))
	if s := b.State()[0].Machines[0]; s.Losses != 0 {
		t.Errorf("%+v", s)
	}
	if err := a.Set(t.Context(), nil); err != nil || a.State() != nil || a.AnswersUntil(loopback) != 0 {
		t.Errorf("%v: no link is left, and it says %v", err, a.State())
	}
	until(t, b, standing(0, advertise.Down))
}

func TestTheWitnessIsAskedUntilOneAnswers(t *testing.T) {
	witness := between(4)
	witness.Witness = []netip.Addr{host(200), host(201)}
	reachable := make(chan bool, 1)
	reachable <- true
	answers := func(_ context.Context, _ netip.Prefix, addr netip.Addr) bool {
		yes := <-reachable
		reachable <- yes
		return yes && addr == host(201)
	}
	m := begin(t, Options{Answers: answers}, witness)
	until(t, m, func(l LinkState) bool { return l.Witness == advertise.WitnessAnswers })
	<-reachable
	reachable <- false
	until(t, m, func(l LinkState) bool { return l.Witness == advertise.WitnessSilent })
	witness.Witness = nil
	if err := m.Set(t.Context(), []Config{witness}); err != nil {
		t.Fatal(err)
	}
	until(t, m, func(l LinkState) bool { return l.Witness == advertise.NoWitness })
	if m.AnswersUntil(loopback) != 0 {
		t.Error("it may answer before anybody has acted on what it says")
	}
	m.Acted(m.State())
	if got := m.AnswersUntil(loopback); got < uptime.Now() {
		t.Errorf("nobody else is there, and its deadline was %v ago", uptime.Now()-got)
	}
}

func TestASessionThatCannotBeOpenedIsNamedAndOpenedLater(t *testing.T) {
	bad := between(5, 6)
	bad.Machines = append(bad.Machines, Machine{"z", netip.IPv6Loopback()})
	m := New(Options{})
	defer m.Close(t.Context(), 0)
	if err := m.Set(t.Context(), []Config{bad}); err == nil {
		t.Error("no error")
	}
	begin(t, Options{}, between(6, 5))
	until(t, m, standing(0, advertise.Up))
	until(t, m, standing(1, advertise.Down))
}
