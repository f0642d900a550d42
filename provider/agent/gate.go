package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/kubeproxy"
)

const (
	// rulesBound is how long a VIP waits for kube-proxy's rules at most. kube-proxy tries a
	// sync that failed again after 30 seconds (its --iptables-sync-period and siblings), and
	// then takes seconds on a large cluster.
	rulesBound = 45 * time.Second
	// askEvery is how often kube-proxy's rules are looked for while a VIP waits for them: what
	// waiting costs at most, at the median half of it.
	askEvery = 10 * time.Millisecond
	// askShare is how much of the time goes into looking at most: one part in so many.
	askShare = 5
	// askTogether is how many questions have their answers taken together.
	askTogether = 500
	// askOverdueEvery is how often it is asked about a VIP that is announced without.
	askOverdueEvery = 5 * time.Second
	// askFirstWithin bounds how long an agent that begins waits for its first answers.
	askFirstWithin = time.Second
)

// prober says what kube-proxy has rules for: [kubeproxy.Prober].
type prober interface {
	Ask(context.Context, kubeproxy.Round, []advertise.Question) []advertise.Answer
}

// asker asks in a goroutine of its own, for as long as there are questions.
type asker struct {
	prober  prober
	changed func()
	rounds  newest[round]
	ended   chan struct{} // has one when a round has ended

	mu      sync.Mutex
	answers []advertise.Answer // that nobody has taken yet
}

// round is what is asked, and with what.
type round struct {
	with      kubeproxy.Round
	questions []advertise.Question
}

func newAsker(p prober, changed func()) *asker {
	return &asker{prober: p, changed: changed, rounds: newNewest[round](), ended: make(chan struct{}, 1)}
}

// run asks what it was last told to, again and again, until the context ends.
func (a *asker) run(ctx context.Context) {
	var now round
	var ended time.Time // the last time
	var each time.Duration
	for {
		var due <-chan time.Time
		if n := len(now.questions); n > 0 {
			due = time.After(time.Until(ended.Add(max(pace(now.questions), (askShare-1)*each*time.Duration(n)))))
		}
		select {
		case <-ctx.Done():
			return
		case now = <-a.rounds:
			continue
		case <-due:
		}
		started := time.Now()
		for some := range slices.Chunk(now.questions, askTogether) {
			a.put(a.prober.Ask(ctx, now.with, some))
		}
		ended = time.Now()
		each = ended.Sub(started) / time.Duration(len(now.questions))
		select {
		case a.ended <- struct{}{}:
		default:
		}
	}
}

// pace is how long it takes at least until some questions are asked again.
func pace(questions []advertise.Question) time.Duration {
	if slices.ContainsFunc(questions, func(q advertise.Question) bool { return !q.Overdue }) {
		return askEvery
	}
	return askOverdueEvery
}

// put has the agent take answers, if there is one among them that changes anything.
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

func (a *asker) take() []advertise.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.answers
	a.answers = nil
	return all
}

// gate holds VIPs back until kube-proxy on this machine has the rules for them. Its methods
// are for the agent's goroutine alone. Its zero value lets everything through.
type gate struct {
	rules   *advertise.Gate
	asker   *asker
	last    round
	asks    uint64               // what was asked last
	built   time.Time            // when
	overdue []advertise.Question // announced without rules that were seen
}

func newGate(p prober, changed func()) gate {
	return gate{rules: advertise.NewGate(rulesBound), asker: newAsker(p, changed)}
}

// apply has the inputs say what may be announced now.
func (g *gate) apply(in *inputs, now time.Time) []advertise.Passage {
	if g.rules == nil {
		in.Passed = in.Offers
		return nil
	}
	ended := append(g.rules.Answer(g.asker.take(), now), g.rules.Expire(now)...)
	in.Passed = g.rules.Apply(in.Offers, now)
	in.version.passed = g.rules.Changes()
	return ended
}

// observe has asked what a plan holds back, and returns when it is to be called again; 0:
// nothing is pending. In a burst of plans it is put together once for each round.
func (g *gate) observe(p plan, with kubeproxy.Round, now time.Time) time.Duration {
	if g.rules == nil {
		return 0
	}
	g.rules.Observe(p.Refused, now)
	if g.asks == g.rules.Asks() && with.Proxy == g.last.with.Proxy && slices.Equal(with.Addresses, g.last.with.Addresses) {
		return g.rules.Next(now)
	}
	if wait := askEvery - now.Sub(g.built); wait > 0 {
		return wait
	}
	g.last, g.asks, g.built = round{with, g.rules.Questions()}, g.rules.Asks(), now
	g.asker.rounds.put(g.last)
	g.overdue = slices.DeleteFunc(slices.Clone(g.last.questions), func(q advertise.Question) bool { return !q.Overdue })
	return g.rules.Next(now)
}

// awaitFirst waits for the first answers, but not for long, and reports whether there was a
// question.
func (g *gate) awaitFirst(ctx context.Context) bool {
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

// admit applies the gate to the inputs.
func (a *Agent) admit(now time.Time) {
	ended := a.gate.apply(&a.inputs, now)
	told := 0
	for _, p := range ended {
		a.metrics.rulesWait.WithLabelValues(string(p.Evidence)).Observe(p.After.Seconds())
		if p.Evidence != advertise.Overdue {
			continue
		}
		if told++; told <= refusalsTold {
			slog.Warn("announcing a VIP without kube-proxy's rules for it", "service", p.Question.Service, "vip", p.Question.VIP, "after", p.After.Round(time.Millisecond))
		}
	}
	if told > refusalsTold {
		slog.Warn("announcing more VIPs without kube-proxy's rules; see /status", "all", told)
	}
}
