package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/provider/agent/latest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
	"plinth.dev/plinth/wake"
)

const (
	// RulesBound is how long a VIP waits for kube-proxy's rules at most. kube-proxy tries a
	// sync that failed again after 30 seconds (its --iptables-sync-period and siblings), and
	// then takes seconds on a large cluster. Not so its first one, which it makes outside of that loop: the next is made
	// when some Service or EndpointSlice changes (OnServiceSynced of both proxiers, Kubernetes 1.37).
	RulesBound = 45 * time.Second
	// askEvery is how often kube-proxy's rules are looked for while a VIP waits for them: what
	// waiting costs at most, at the median half of it.
	askEvery = 10 * time.Millisecond
	// askShare is how much of the time goes into looking at most: one part in so many.
	askShare = 5
	// askTogether is how many questions have their answers taken together.
	askTogether = 500
	// askOverdueEvery is how often it is asked about a VIP that is announced without.
	askOverdueEvery = 5 * time.Second
	// askLostEvery is how often it is asked about a VIP whose rules are gone.
	askLostEvery = time.Second
	// askFirstWithin bounds how long an agent that begins waits for its first answers.
	askFirstWithin = time.Second
)

// Prober is the probe of kube-proxy's rules: [kubeproxy.Prober].
type Prober interface {
	Ask(context.Context, kubeproxy.Round, []advertise.Question) []advertise.Answer
	Connects(kubeproxy.Round) bool
}

// asker asks in a goroutine of its own, for as long as there are questions.
type asker struct {
	prober  Prober
	changed func()
	rounds  latest.Value[round]
	ended   chan struct{} // has one when a round has ended

	mu      sync.Mutex
	answers []advertise.Answer   // that nobody has taken yet
	gone    []advertise.Question // rules, nor these
	there   []advertise.Question // rules that are seen for the first time
}

// round is a round of questions, and the means by which they are asked.
type round struct {
	with      kubeproxy.Round
	questions []advertise.Question
	passing   []advertise.Question // whose rules are looked for again
}

func newAsker(p Prober, changed func()) *asker {
	return &asker{prober: p, changed: changed, rounds: latest.New[round](), ended: make(chan struct{}, 1)}
}

// run asks the questions of the latest round, again and again, until the context ends.
func (a *asker) run(ctx context.Context) {
	var now round
	var ended time.Time // the last time
	var each time.Duration
	again := lookout{prober: a.prober}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		var due <-chan time.Time
		if n := len(now.questions); n > 0 {
			due = time.After(time.Until(ended.Add(max(pace(now.questions), (askShare-1)*each*time.Duration(n)))))
		}
		select {
		case <-ctx.Done():
			return
		case now = <-a.rounds:
			again.update(now.passing)
			continue
		case <-look.C:
			a.putSeen(again.look(ctx, now.with))
			continue
		case <-due:
		}
		started := time.Now()
		for some := range slices.Chunk(now.questions, askTogether) {
			a.put(a.prober.Ask(ctx, now.with, some))
		}
		ended = time.Now()
		each = ended.Sub(started) / time.Duration(len(now.questions))
		wake.Up(a.ended)
	}
}

// pace returns the time that passes at least until some questions are asked again.
func pace(questions []advertise.Question) time.Duration {
	every := askOverdueEvery
	for _, q := range questions {
		switch {
		case q.Lost:
			every = askLostEvery
		case !q.Overdue:
			return askEvery
		}
	}
	return every
}

// put hands answers to the agent, if one among them changes anything.
func (a *asker) put(answers []advertise.Answer) {
	answers = slices.DeleteFunc(answers, func(x advertise.Answer) bool { return x.Evidence == advertise.Absent })
	if len(answers) == 0 {
		return
	}
	a.mu.Lock()
	a.answers = append(a.answers, answers...)
	a.mu.Unlock()
	a.changed()
}

// putSeen hands to the agent the rules that are there, and those that are gone.
func (a *asker) putSeen(there, gone []advertise.Question) {
	if len(there)+len(gone) == 0 {
		return
	}
	a.mu.Lock()
	a.there, a.gone = append(a.there, there...), append(a.gone, gone...)
	a.mu.Unlock()
	a.changed()
}

func (a *asker) take() (answers []advertise.Answer, there, gone []advertise.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answers, there, gone = a.answers, a.there, a.gone
	a.answers, a.there, a.gone = nil, nil, nil
	return answers, there, gone
}

// Gate holds VIPs back until kube-proxy on this machine has the rules for them. Its methods
// are for the agent's goroutine alone. Its zero value lets everything through.
type Gate struct {
	rules   *advertise.Gate
	asker   *asker
	last    round
	asks    uint64               // what was asked last
	built   time.Time            // when
	passes  uint64               // what was looked for again last
	looked  time.Time            // when that was put together
	overdue []advertise.Question // announced without rules
	lost    int                  // VIPs of Services whose rules are gone
}

// NewGate returns a gate that has passed nothing. Changed is called when there is something to apply.
func NewGate(p Prober, changed func()) *Gate {
	return &Gate{rules: advertise.NewGate(RulesBound), asker: newAsker(p, changed)}
}

// Within bounds how long a VIP waits for rules; [RulesBound] where nobody says so.
func (g *Gate) Within(bound time.Duration) {
	if g.rules != nil {
		g.rules = advertise.NewGate(bound)
	}
}

// Adopt adopts the VIPs that the process before this one announced.
func (g *Gate) Adopt(all sorted.List[advertise.Offer]) {
	if g.rules != nil {
		g.rules.Adopt(all)
	}
}

// Run looks for rules until the context ends.
func (g *Gate) Run(ctx context.Context) {
	if g.asker != nil {
		g.asker.run(ctx)
	}
}

// WithoutRules are the VIPs that are announced without rules, and how many Services' rules are gone.
func (g *Gate) WithoutRules() (overdue []advertise.Question, lost int) { return g.overdue, g.lost }

// Apply sets in the inputs the offers that may be announced now.
func (g *Gate) Apply(in *plan.Inputs, now time.Time) []advertise.Passage {
	if g.rules == nil {
		in.Passed = in.Offers
		return nil
	}
	answers, there, gone := g.asker.take()
	g.rules.See(there, now)
	ended := slices.Concat(g.rules.Answer(answers, now), g.rules.Lose(gone, now), g.rules.Expire(now))
	in.Passed = g.rules.Apply(in.Offers, now)
	in.Version.Passed = g.rules.Changes()
	return ended
}

// Observe asks about the VIPs that a plan holds back, looks for the rules of those that pass, and returns when it is to be called again;
// 0: nothing is pending. In a burst of plans that is put together once for each round.
func (g *Gate) Observe(known plan.Plan, with kubeproxy.Round, now time.Time) time.Duration {
	if g.rules == nil {
		return 0
	}
	g.rules.Observe(known.Refused, now)
	next := g.rules.Next(now)
	asks := g.asks != g.rules.Asks() || with.Proxy != g.last.with.Proxy || !slices.Equal(with.Addresses, g.last.with.Addresses)
	passes := g.passes != g.rules.Changes()
	if wait := askEvery - now.Sub(g.built); asks && wait > 0 {
		return wait
	}
	if wait := lookEvery - now.Sub(g.looked); passes && wait > 0 {
		passes = false
		if next == 0 || wait < next {
			next = wait
		}
	}
	if !asks && !passes {
		return next
	}
	g.last.with = with
	if asks {
		lost := g.lost
		g.last.questions, g.asks, g.built = g.rules.Questions(), g.rules.Asks(), now
		g.sort(known)
		passes = passes || g.lost != lost // which is told in proportion
	}
	if passes {
		g.last.passing, g.passes, g.looked = g.rules.Passing(), g.rules.Changes(), now
	}
	g.asker.rounds.Put(g.last)
	return next
}

// sort collects the questions whose VIPs are announced without rules, and counts those whose rules are gone.
func (g *Gate) sort(planned plan.Plan) {
	g.overdue, g.lost = nil, 0
	for _, q := range g.last.questions {
		if q.Lost {
			g.lost++
		}
		if q.Overdue || q.Lost && !planned.Withholds(q) {
			g.overdue = append(g.overdue, q)
		}
	}
}

// RulesLost returns the number of questions whose rules are gone, and of how many, as the Node's condition reports them.
func (g *Gate) RulesLost() lb.RulesLost {
	if g.lost == 0 {
		return lb.RulesLost{}
	}
	return lb.RulesLost{Gone: g.lost, Of: g.lost + len(g.last.passing)}
}

// AwaitFirst waits for the first answers, but not for long, and reports whether there was a
// question.
func (g *Gate) AwaitFirst(ctx context.Context) bool {
	if len(g.last.questions) == 0 {
		return false
	}
	limit := time.NewTimer(askFirstWithin)
	defer limit.Stop()
	select {
	case <-g.asker.ended:
	case <-limit.C:
	case <-ctx.Done():
	}
	return true
}
