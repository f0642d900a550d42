package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

// Mesh is this machine's part of the mesh of each of its subnets. It can be used by several
// goroutines.
type Mesh struct {
	options Options
	changed chan struct{}

	setting sync.Mutex // one Set or Close at a time
	mu      sync.Mutex
	links   map[netip.Prefix]*link
}

// New returns a Mesh without a link.
func New(options Options) *Mesh {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Listeners == nil {
		options.Listeners = bfd.NewListeners()
	}
	return &Mesh{options: options, changed: make(chan struct{}, 1), links: map[netip.Prefix]*link{}}
}

func (m *Mesh) answers(ctx context.Context, subnet netip.Prefix, addr netip.Addr) bool {
	return m.options.Answers != nil && m.options.Answers(ctx, subnet, addr)
}

// Changed receives a value after a change of [Mesh.State]. Changes that come
// together give one value.
func (m *Mesh) Changed() <-chan struct{} { return m.changed }

func (m *Mesh) tell() { wake.Up(m.changed) }

// State returns the known state of each subnet, sorted. The caller is to act on it: see
// [Mesh.AnswersUntil].
func (m *Mesh) State() []LinkState {
	var all []LinkState
	for _, l := range m.sorted() {
		all = append(all, l.state())
	}
	return all
}

func (m *Mesh) sorted() []*link {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*link
	for _, subnet := range slices.SortedFunc(maps.Keys(m.links), netip.Prefix.Compare) {
		all = append(all, m.links[subnet])
	}
	return all
}

// link returns the link of a subnet; nil: none is set.
func (m *Mesh) link(subnet netip.Prefix) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[subnet]
}

// Acted confirms that the caller has acted on states: that this machine answers for nothing any more that others may have taken
// over while this process stood still.
func (m *Mesh) Acted(on []LinkState) {
	for _, state := range on {
		if l := m.link(state.Subnet); l != nil {
			l.mu.Lock()
			l.evidence.acted = max(l.evidence.acted, state.Resumed)
			l.mu.Unlock()
		}
	}
}

// AnswersUntil returns the deadline, on the clock of package uptime, until which the last result of [Mesh.State] for a
// subnet may be acted on; 0 for a subnet without a mesh, and since this process stood still, until [Mesh.Acted]. A caller that answers a
// request that may have waited compares it with the time of the answer.
func (m *Mesh) AnswersUntil(subnet netip.Prefix) time.Duration {
	link := m.link(subnet)
	if link == nil {
		return 0
	}
	link.mu.Lock()
	defer link.mu.Unlock()
	if !link.evidence.isActedOn(uptime.Now()) {
		return 0
	}
	for _, x := range link.members { // newer than the loop's last turn
		link.evidence.lastUp = max(link.evidence.lastUp, x.facts().Heard.LastUp)
	}
	return link.evidence.until()
}

// Set makes these the links. A machine that stays keeps its session. Its error names the
// machines whose session could not be opened: they count as silent until another Set opens it.
func (m *Mesh) Set(ctx context.Context, configs []Config) error {
	m.setting.Lock()
	defer m.setting.Unlock()
	var errs []error
	wanted := map[netip.Prefix]bool{}
	for _, c := range configs {
		wanted[c.Subnet] = true
	}
	for _, l := range m.sorted() {
		if !wanted[l.config.Subnet] {
			m.remove(ctx, l, 0)
		}
	}
	for _, c := range configs {
		errs = append(errs, m.set(ctx, c.normal()))
	}
	return errors.Join(errs...)
}

func (m *Mesh) set(ctx context.Context, config Config) error {
	have := m.link(config.Subnet)
	if have != nil {
		return have.set(ctx, config)
	}
	have = &link{mesh: m, wake: make(chan struct{}, 1)}
	have.ctx, have.stop = context.WithCancel(context.Background())
	err := have.set(ctx, config)
	have.evidence.observe(uptime.Now()) // else its first turn would be told as one after a pause
	m.mu.Lock()
	m.links[config.Subnet] = have
	m.mu.Unlock()
	have.done.Add(1)
	go have.run()
	return err
}

// set changes the configuration of a link.
func (l *link) set(ctx context.Context, config Config) error {
	l.mu.Lock()
	staying := map[Machine]*member{}
	var leaving []*member
	for _, x := range l.members {
		if config.Self == l.config.Self && slices.Contains(config.Machines, x.Machine) {
			staying[x.Machine] = x
		} else {
			leaving = append(leaving, x)
		}
	}
	l.mu.Unlock()
	end(ctx, leaving, 0)

	var errs []error
	var members []*member
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, machine := range config.Machines {
		added := staying[machine]
		if added == nil {
			added = &member{MachineState: MachineState{Machine: machine, Since: time.Now()}, peer: peer{opened: uptime.Now()}}
		}
		if err := l.configure(added, config); err != nil {
			errs = append(errs, fmt.Errorf("mesh of %v: %s: %w", config.Subnet, machine.Name, err))
		}
		members = append(members, added)
	}
	l.settle(config, members)
	return errors.Join(errs...)
}

// settle puts the configuration in force.
func (l *link) settle(config Config, members []*member) {
	changed := !slices.EqualFunc(l.members, members, func(a, b *member) bool { return a == b })
	l.config, l.members = config, members
	l.evidence.detection, l.evidence.alone = config.detection(), len(members) == 0
	was := l.witness.is
	switch {
	case len(config.Witness) == 0:
		l.witness.is = advertise.NoWitness
	case was == advertise.NoWitness:
		l.witness.is = advertise.WitnessSilent
	}
	if changed || was != l.witness.is {
		l.evidence.read = false
		l.mesh.tell()
	}
	l.wakeUp()
}

// configure opens a machine's session, or changes what it has.
func (l *link) configure(member *member, config Config) error {
	member.detection, member.restartTime = config.detection(), config.RestartTime
	if member.session == nil {
		return l.open(member, config)
	}
	member.session.SetDiagnostic(diagnostic(config))
	if member.session.Terms().Timers == config.Timers {
		return nil
	}
	return member.session.SetTimers(config.Timers)
}

func diagnostic(c Config) bfd.Diagnostic {
	if c.Leaving {
		return bfd.ConcatenatedPathDown
	}
	return bfd.NoDiagnostic
}

func (l *link) open(member *member, config Config) error {
	terms := bfd.Terms{Local: config.Self, Remote: member.Addr, Timers: config.Timers}
	session, err := l.mesh.options.Listeners.Open(terms, l.mesh.options.Log.With("machine", member.Name, "address", member.Addr.String()))
	if err != nil {
		return err
	}
	session.SetDiagnostic(diagnostic(config))
	member.session, member.gone, member.opened = session, make(chan struct{}), uptime.Now()
	session.BeginAfter(config.detection())
	gone := member.gone
	l.done.Go(func() {
		for {
			select {
			case <-session.Changed():
				l.wakeUp()
			case <-gone:
				return
			}
		}
	})
	return nil
}

// end closes sessions side by side.
func end(ctx context.Context, members []*member, handOver time.Duration) {
	var all sync.WaitGroup
	for _, member := range members {
		if member.session == nil {
			continue
		}
		all.Go(func() {
			member.session.Close(ctx, handOver)
			close(member.gone)
		})
	}
	all.Wait()
}

// remove ends a link. In a hand-over its last deadline holds until the others have agreed, or did not:
// they leave to this machine the VIPs that it has, and no other answers. Otherwise they take over at the
// first packet that ends the session.
func (m *Mesh) remove(ctx context.Context, link *link, handOver time.Duration) {
	if handOver > 0 {
		end(ctx, link.members, handOver)
	}
	m.mu.Lock()
	delete(m.links, link.config.Subnet)
	m.mu.Unlock()
	link.stop()
	if handOver <= 0 {
		end(ctx, link.members, 0)
	}
	link.done.Wait()
	m.tell()
}

// Close ends all sessions. A handOver above 0 asks the others to wait for so long for the
// process that follows: to them this machine is Holding meanwhile.
func (m *Mesh) Close(ctx context.Context, handOver time.Duration) {
	m.setting.Lock()
	defer m.setting.Unlock()
	var all sync.WaitGroup
	for _, l := range m.sorted() {
		all.Go(func() { m.remove(ctx, l, handOver) })
	}
	all.Wait()
}
