package fleet

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"plinth.dev/plinth/test/bench/results"
)

// agent is the contender that is ours.
const agent = "agent"

// BenchmarkFleet measures, of the API server and for one watcher, if nothing else is said:
//
//   - when all start at once: processor time of the server ("ms/start"), what is received ("MB/start"), requests that
//     were answered, which open watches were not ("requests/start"), connections ("dials/start"), and how long it takes
//     until all have been told all ("s/start"); the server's memory at most ("MB-server-peak") and after the rest
//     ("MB-server");
//   - when all watches end and go on once, as each does every five to ten minutes: "ms/renew";
//   - at rest, with the reports of all kubelets, and for agents with those of all agents: what the watches cost
//     ("us/s-rest"), what an agent's own reports cost besides ("us/s-reports"), and "requests/min-rest", "events/min-rest";
//   - in a rollout of 1,000 pods: "ms/rollout", "events/rollout", "MB/rollout";
//   - when an edit of the inventory changes what every machine announces: "ms/edit", "requests/edit", until the
//     controller manager says that it is in force ("s/accepted"), and until the last agent has it ("s/edit").
//
// "refused" are requests of one turn that the server had no time for, at most. A time of a processor that is not beyond what
// nobody's turns before and after it differ by, and a collection of garbage takes, is no figure: its bound is, as "below-" and the unit.
//
// By the rule of the package, for as many watchers as there are Nodes: "cores-rest" and "cores-rollout", processors that are
// busy with watches; "cores-renew", with those that go on, each after seven and a half minutes; "cores-reports", with agents' own reports; "cpu-s-start" and "cpu-s-edit", seconds of a processor. Of
// nobody "cores-rest" and "cores-rollout" are what the server does anyway.
//
// Of the controller manager, which takes part in no election: from its start until all Services have their VIP and all Nodes
// are initialised ("s/first"), until it has done what came while none ran ("s/start"), and its memory after that: at
// rest, what of it is not the program's own file, and at most until then ("MB", "MB-heap", "MB-peak").
func BenchmarkFleet(b *testing.B) {
	s := newStand(b)
	measured := results.New(*rounds)
	manager := measured.Of("controller")
	s.populate(manager)
	turns := map[string][]turn{}
	take := func(c contender) {
		t := s.turn(c)
		fmt.Fprintf(os.Stderr, "%s: %+v\n", c.name, t)
		checkEvents(b, c, t)
		turns[c.name] = append(turns[c.name], t)
	}
	for i := range *rounds {
		s.restart(i, manager)
		take(nobody)
		contenders := s.contenders()
		if i%2 > 0 {
			slices.Reverse(contenders)
		}
		for _, c := range contenders {
			take(c)
		}
		take(nobody)
	}
	reportNobody(measured.Of(nobody.name), turns[nobody.name])
	told := map[string]map[string]bool{}
	for _, name := range []string{"kube-proxy", agent} {
		if len(turns[name]) > 0 {
			told[name] = report(measured.Of(name), name, turns)
		}
	}
	for _, unit := range []string{"ms/start", "MB/start", "ms/renew", "us/s-rest", "ms/rollout", "MB/rollout"} {
		if told[agent][unit] && told["kube-proxy"][unit] {
			measured.Ratio(agent, "kube-proxy", unit)
		}
	}
	measured.Report(b)
}

// checkEvents fails the benchmark where watchers were not told of every change of a pod while they were measured.
func checkEvents(b *testing.B, c contender, t turn) {
	b.Helper()
	if got, want := t.rollout.slices, float64(3**pods**watched); c != nobody && got < want {
		b.Fatalf("%s: watchers got %.0f events of a rollout, want %.0f", c.name, got, want)
	}
}

func reportNobody(r *results.Result, all []turn) {
	for _, t := range all {
		r.Add("cores-rest", t.rest.server/t.rest.seconds)
		r.Add("cores-rollout", t.rollout.server/t.rollout.seconds)
		r.Add("s/accepted", t.accepted)
		r.Add("MB-server", t.atRest)
	}
}

// phase is a part of a turn whose cost is compared with what nobody cost.
type phase struct {
	each, all string  // units: of one watcher, and of as many as there are Nodes
	scale     float64 // of each
	seconds   float64 // that all is divided by; 1: it is a sum
	of, base  func(turn) cost
	idle      bool // nobody's is a rate
}

// phasesOf are those of a contender. Agents at rest are compared with nobody where agents' reports are written all the same:
// what these cost is told apart.
func phasesOf(name string) []phase {
	start := func(t turn) cost { return t.start }
	rest := func(t turn) cost { return t.rest }
	without := rest
	if name == agent {
		without = func(t turn) cost { return t.beats }
	}
	renew := func(t turn) cost { return t.renew }
	rollout := func(t turn) cost { return t.rollout }
	edit := func(t turn) cost { return t.edit }
	return []phase{
		{"ms/start", "cpu-s-start", 1e3, 1, start, start, true},
		{"ms/renew", "cores-renew", 1e3 / renewals, renewals * watchesLast.Seconds(), renew, renew, true},
		{"us/s-rest", "cores-rest", 1e6 / resting.Seconds(), resting.Seconds(), rest, without, false},
		{"ms/rollout", "cores-rollout", 1e3, rolloutTime().Seconds(), rollout, rollout, false},
		{"ms/edit", "cpu-s-edit", 1e3, 1, edit, edit, false},
	}
}

// samples are the server's time in a phase, by round.
func (p phase) samples(name string, turns map[string][]turn) (all []sample) {
	for i, t := range turns[name] {
		of, before, after := p.of(t), p.base(turns[nobody.name][2*i]), p.base(turns[nobody.name][2*i+1])
		if p.idle {
			before, after = before.during(of.seconds), after.during(of.seconds)
		}
		all = append(all, sampleOf(of, before, after))
	}
	return all
}

// report notes what one watcher costs, and the whole fleet, and returns the units that have a figure.
func report(r *results.Result, name string, turns map[string][]turn) (told map[string]bool) {
	told = map[string]bool{"MB/start": true, "MB/rollout": true}
	for _, p := range phasesOf(name) {
		all := p.samples(name, turns)
		told[p.each] = addMore(r, p.each, p.scale, *watched, all)
		addMore(r, p.all, float64(*nodes)/p.seconds, *watched, all)
	}
	if name == agent {
		reports := reportsOf(turns[nobody.name])
		addMore(r, "us/s-reports", 1e6/resting.Seconds(), *nodes, reports)
		addMore(r, "cores-reports", 1/resting.Seconds(), 1, reports)
	}
	for i, t := range turns[name] {
		t.addCounts(r, name, turns[nobody.name][2*i])
	}
	return told
}

// reportsOf are what agents' reports cost in each turn of nobody, beside the same without them.
func reportsOf(turns []turn) (all []sample) {
	for i, t := range turns {
		round := i - i%2
		all = append(all, sampleOf(t.beats, turns[round].rest, turns[round+1].rest))
	}
	return all
}

// addCounts notes all that is no time of the server's processors.
func (t turn) addCounts(r *results.Result, name string, without turn) {
	const mebi = 1 << 20
	one, minutes := 1/float64(*watched), resting.Minutes()
	start, rollout, edit := t.start.plus(-1, without.start.during(t.start.seconds)), t.rollout.plus(-1, without.rollout), t.edit.plus(-1, without.edit)
	rest := t.rest.plus(-1, without.rest)
	if name == agent {
		rest = t.rest.plus(-1, without.beats)
		r.Add("s/edit", t.inForce)
	}
	r.Add("s/start", t.synced)
	r.Add("s/accepted", t.accepted)
	r.Add("requests/start", one*start.requests)
	r.Add("dials/start", one*start.dials)
	r.Add("MB/start", one*start.bytes/mebi)
	r.Add("MB-server-peak", t.peak)
	r.Add("MB-server", t.atRest)
	r.Add("requests/min-rest", max(0, one*rest.requests/minutes))
	r.Add("events/min-rest", max(0, one*rest.events/minutes))
	r.Add("events/rollout", one*rollout.events)
	r.Add("MB/rollout", one*rollout.bytes/mebi)
	r.Add("requests/edit", max(0, one*edit.requests))
	r.Most("refused", t.start.refused+t.renew.refused+t.rest.refused+t.rollout.refused+t.edit.refused)
}
