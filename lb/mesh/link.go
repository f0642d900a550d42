package mesh

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

const (
	witnessEvery = time.Second
	witnessTries = 2 // asks in a row without an answer, of three tries each, and the witness is silent
)

// link is the mesh of one subnet. Its goroutine feeds what mu guards.
type link struct {
	mesh *Mesh
	ctx  context.Context // ends with the link
	stop context.CancelFunc
	wake chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	config   Config
	members  []*member // by name
	evidence evidence
	witness  witness
}

// member is a machine, and the session with it.
type member struct {
	peer
	MachineState
	session *bfd.Session // nil: it could not be opened
	gone    chan struct{}
}

// witness is the known state of the hosts by which a machine that is alone is distinguished from one that is
// cut off.
type witness struct {
	is     advertise.Witness
	asking bool
	next   time.Duration // when to ask again
	silent int           // asks in a row
}

// facts returns the state of the machine's BFD session.
func (m *member) facts() facts {
	if m.session == nil {
		return facts{Status: bfd.Status{State: bfd.Down, Peer: bfd.Down}}
	}
	return facts{m.session.Status(), m.session.Heard()}
}

// run turns with each change of a session and at least twice an interval.
func (l *link) run() {
	defer l.done.Done()
	for {
		l.turn()
		l.mu.Lock()
		pause := l.config.Timers.Interval / 2
		l.mu.Unlock()
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-time.After(pause):
		}
	}
}

func (l *link) wakeUp() { wake.Up(l.wake) }

// turn observes the state of the sessions, and asks the machines that it is time to ask.
func (l *link) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := uptime.Now()
	anyUp, changed := false, l.evidence.observe(now)
	for _, member := range l.members {
		facts := member.facts()
		lost := facts.Losses > member.losses
		if facts.State == bfd.Up || member.standing == advertise.Unheard || !l.evidence.hasJustResumed(now) {
			member.observe(now, facts)
		}
		if member.wantsAsk(now, facts) {
			member.ask(now)
			l.askMember(member)
		}
		if lost {
			l.witness.next = now
		}
		changed = member.publish(facts) || changed
		anyUp = anyUp || member.standing == advertise.Up || member.standing == advertise.Leaving
		l.evidence.lastUp = max(l.evidence.lastUp, facts.Heard.LastUp)
	}
	if changed {
		l.evidence.read = false
		l.mesh.tell()
	}
	l.evidence.anyUp = anyUp
	l.askWitness(now)
}

// publish sets the machine's published state, and reports whether that has changed.
func (m *member) publish(f facts) bool {
	changed := m.Standing != m.standing || m.Losses != f.Losses
	if m.Standing != m.standing {
		m.Since = time.Now()
	}
	m.Standing, m.Losses = m.standing, f.Losses
	return changed
}

// askMember asks whether a machine's kernel answers, in the background.
func (l *link) askMember(m *member) {
	subnet, addr := l.config.Subnet, m.Addr
	l.done.Go(func() {
		yes := l.mesh.answers(l.ctx, subnet, addr)
		l.mu.Lock()
		m.answered(yes)
		l.mu.Unlock()
		l.wakeUp()
	})
}

// askWitness asks all of the witness at once, in the background; one that answers is enough.
func (l *link) askWitness(now time.Duration) {
	if len(l.config.Witness) == 0 || l.witness.asking || now < l.witness.next {
		return
	}
	l.witness.asking, l.witness.next = true, now+witnessEvery
	subnet, hosts := l.config.Subnet, l.config.Witness
	l.done.Go(func() {
		yes := l.anyAnswers(subnet, hosts)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.witness.asking = false
		if len(l.config.Witness) == 0 {
			return // meanwhile
		}
		was := l.witness.is
		l.witness.answered(now, yes)
		if yes {
			l.evidence.witness = now
		}
		if l.witness.is != was {
			l.evidence.read = false
			l.mesh.tell()
		}
	})
}

func (w *witness) answered(now time.Duration, yes bool) {
	if yes {
		w.is, w.silent = advertise.WitnessAnswers, 0
		return
	}
	if w.silent++; w.silent < witnessTries {
		w.next = now // at once
		return
	}
	w.is = advertise.WitnessSilent
}

func (l *link) anyAnswers(subnet netip.Prefix, hosts []netip.Addr) bool {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	heard := make(chan bool, len(hosts))
	for _, h := range hosts {
		l.done.Go(func() { heard <- l.mesh.answers(ctx, subnet, h) })
	}
	for range hosts {
		if <-heard {
			return true
		}
	}
	return false
}

func (l *link) state() LinkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evidence.read = true
	s := LinkState{Subnet: l.config.Subnet, Witness: l.witness.is, Resumed: l.evidence.resumed}
	for _, m := range l.members {
		s.Machines = append(s.Machines, m.MachineState)
	}
	return s
}
