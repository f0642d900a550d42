package onlink

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/still"
)

const (
	splitVIPs = 4
	// splitAsk is how often every place asks for every VIP.
	splitAsk = 40 * time.Millisecond
	// A cut lasts as long as this, drawn at random.
	shortestCut, longestCut = 3 * time.Second, 8 * time.Second
	// answersTake is for how long the answer to a question may be under way.
	answersTake = 300 * time.Millisecond
)

// BenchmarkSplit cuts homes of 2, 4 and 5 machines apart in every way, and judges who answers where.
func BenchmarkSplit(b *testing.B) {
	if !isNamed(*stories, "split") {
		return
	}
	measured := results.New(1)
	for _, n := range splitHomes() {
		name := fmt.Sprintf("plinth-of-%d", n)
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			home := lab.Home(n)
			for _, m := range home.Machines() {
				home.Racks[0].Hosts = append(home.Racks[0].Hosts, seatAt(m.Name))
			}
			s := newStand(b, home)
			t := s.start(named{name, &ours{s.Lab}}, measured.Of(name))
			t.exposeAll(splitVIPs)
			t.waitMesh(t.machineNames()...)
			newSplit(t).run()
		})
	}
	measured.Report(b)
}

// split is one home that is cut apart.
type split struct {
	*turn
	cutter cutter
	judge  judge
	places map[string]*lab.Asker // by the host that asks
	macs   map[lab.MAC]string
	api    chan error // what the start of the API server came to; nil: it runs
	off    bool       // the API server was stopped
	// longest are the longest findings of each law, by its name.
	longest map[string]finding
	broken  int
	asked   int
}

func newSplit(t *turn) *split {
	t.b.Helper()
	macs, err := t.MACs()
	check(t.b, err)
	machines := t.machineNames()
	return &split{
		turn:   t,
		cutter: cutter{random: rand.New(rand.NewPCG(*seed, uint64(len(machines)))), machines: machines, others: []string{lab.Phone, lab.Laptop, lab.HomeGateway}},
		judge: judge{
			machines: machines, hosts: t.Others(rack), every: splitAsk, still: still.Begin(t.b.Context()).Within,
			owner: map[netip.Addr]string{},
		},
		places: map[string]*lab.Asker{}, macs: macs, longest: map[string]finding{},
	}
}

// run cuts for as long as it is to, and mends everything at the end.
func (s *split) run() {
	s.b.Helper()
	defer s.mend()
	s.tell("%d machines, %d VIPs, %s, seed %d", len(s.judge.machines), len(s.vips), *splitFor, *seed)
	for _, host := range s.seats() {
		a, err := s.AskFrom(s.b.Context(), host, splitAsk, s.vips...)
		check(s.b, err)
		s.places[host] = a
	}
	for vip, owner := range s.settled() {
		s.judge.owner[vip] = owner
	}
	end, cuts := time.Now().Add(*splitFor), 0
	for ; time.Now().Before(end); cuts++ {
		s.cut(s.cutter.next())
	}
	s.cut(cutting{what: "whole, for the end"})
	s.report(cuts)
}

// seats are the hosts that ask.
func (s *split) seats() []string {
	seats := []string{lab.Phone}
	for _, m := range s.judge.machines {
		seats = append(seats, seatAt(m))
	}
	return seats
}

// cut puts a cut in force, waits for a while, and judges what was answered.
func (s *split) cut(next cutting) {
	s.b.Helper()
	s.judge.was, s.judge.is = s.judge.is, next
	s.judge.resumed = map[string]bool{}
	s.goOn()
	check(s.b, s.SetSevered(s.b.Context(), next.ways()...))
	s.halt()
	from := time.Now()
	api := s.toggleAPI()
	lasts := shortestCut + time.Duration(s.cutter.random.Int64N(int64(longestCut-shortestCut)))
	s.until(from.Add(lasts))
	to := time.Now()
	said := s.statuses()
	s.until(to.Add(answersTake))
	s.judgeAll(from, to, said, fmt.Sprintf("%s for %s%s", next, lasts.Round(time.Millisecond), api))
}

// goOn lets go on what is to run from now on, and halt stops what is not to.
func (s *split) goOn() {
	s.b.Helper()
	for _, m := range s.judge.machines {
		if s.judge.was.frozen[m] && !s.judge.is.frozen[m] {
			check(s.b, s.ReviveMachine(s.b.Context(), m))
			s.judge.resumed[m] = true
		}
		if s.judge.was.suspended[m] && !s.judge.is.suspended[m] && !s.judge.is.frozen[m] {
			check(s.b, s.agent(m).Signal(syscall.SIGCONT))
			s.judge.resumed[m] = true
		}
	}
}

func (s *split) halt() {
	s.b.Helper()
	for _, m := range s.judge.machines {
		if s.judge.is.frozen[m] && !s.judge.was.frozen[m] {
			check(s.b, s.KillMachine(s.b.Context(), m))
		}
		if s.judge.is.suspended[m] && !s.judge.was.suspended[m] {
			check(s.b, s.agent(m).Signal(syscall.SIGSTOP))
		}
	}
}

// toggleAPI stops the API server now and then, and starts it again while cuts go on.
func (s *split) toggleAPI() string {
	s.b.Helper()
	if s.api != nil {
		select {
		case err := <-s.api:
			check(s.b, err)
			s.api = nil
		default:
			return "; the API server starts"
		}
	}
	switch {
	case s.off:
		s.off, s.api = false, make(chan error, 1)
		done := s.api
		go func() { done <- s.StartAPIServer(s.b.Context()) }()
		return "; the API server starts"
	case s.cutter.random.IntN(6) == 0:
		s.off = true
		check(s.b, s.StopAPIServer(s.b.Context()))
		return "; no API server"
	}
	return ""
}

// judgeAll judges what every place was answered.
func (s *split) judgeAll(from, to time.Time, said, what string) {
	s.b.Helper()
	last := map[netip.Addr]time.Time{}
	owner := maps.Clone(s.judge.owner)
	var broken []finding
	var two, none time.Duration
	for place, asker := range s.places {
		byVIP := map[netip.Addr][]answered{}
		for _, one := range asker.Take(to) {
			a := answered{one.At, s.ownersOf(one)}
			if len(a.owners) > 0 && a.at.After(last[one.Address]) {
				last[one.Address], owner[one.Address] = a.at, a.owners[0]
			}
			if !a.at.Before(from) {
				byVIP[one.Address] = append(byVIP[one.Address], a)
				s.asked++
			}
		}
		for vip, asked := range byVIP {
			both, nobody := s.judge.longest(place, vip, asked, from, to)
			two = max(two, both.net)
			if nobody.law != noLaw {
				none = max(none, nobody.net)
			}
			for _, f := range []finding{both, nobody} {
				s.keep(f)
				if f.broken() {
					broken = append(broken, f)
				}
			}
		}
	}
	s.judge.owner = owner
	s.tell("%s: two answered for %s, nobody where somebody had to for %s", what, two.Round(time.Millisecond), none.Round(time.Millisecond))
	s.accuse(broken, from, said)
}

func (s *split) ownersOf(one lab.Asked) (owners []string) {
	for _, mac := range one.MACs() {
		owners = append(owners, s.macs[mac])
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// keep keeps the longest finding of each kind.
func (s *split) keep(f finding) {
	name := f.law.name
	switch {
	case f.law == noLaw && f.two:
		name = "two owners where a cut is not transitive"
	case f.law == noLaw:
		return
	case f.two:
		name = "two owners, want " + name
	default:
		name = "nobody with " + name
	}
	if f.net > s.longest[name].net {
		s.longest[name] = f
	}
}

// accuse tells what broke a law, and what the agents said then.
func (s *split) accuse(broken []finding, from time.Time, said string) {
	s.b.Helper()
	if len(broken) == 0 {
		return
	}
	s.broken += len(broken)
	slices.SortFunc(broken, func(a, b finding) int { return a.from.Compare(b.from) })
	for _, f := range broken[:min(6, len(broken))] {
		s.tell("BROKEN: %s", f)
	}
	s.b.Errorf("%d findings broke a law in: %s (after: %s); the first: %s", len(broken), s.judge.is, s.judge.was, broken[0])
	s.tell("owners before: %v\nat its end:\n%s\nlogs:\n%s", s.judge.owner, said, s.logs(from.Add(-time.Second), broken[0].to.Add(2*time.Second)))
}

// statuses are what the agents that run say of their links.
func (s *split) statuses() string {
	var text strings.Builder
	for _, m := range s.judge.machinesOf(s.judge.machines, s.judge.is) {
		for _, name := range []string{"plinth_agent_link_quorum", "plinth_agent_link_machines", "plinth_agent_link_vips", "plinth_agent_link_problems"} {
			samples, err := s.metrics(s.b.Context(), m, name)
			if err != nil {
				fmt.Fprintf(&text, "  %s: %v\n", m, err)
			}
			for _, one := range samples {
				fmt.Fprintf(&text, "  %s: %s{%s} %.0f\n", m, name, one.labels, one.value)
			}
		}
		fmt.Fprintf(&text, "  %s: %s\n", m, s.owners(m))
	}
	return text.String()
}

// owners are who answers for the VIPs by what an agent says.
func (s *split) owners(machine string) string {
	links, err := s.Links(s.b.Context(), machine)
	if err != nil {
		return err.Error()
	}
	var vips []string
	for _, l := range links {
		for _, v := range l.VIPs {
			vips = append(vips, fmt.Sprintf("%s: owner %q, answers %v %s", v.VIP, v.Owner, v.Answers, v.Reason))
		}
	}
	return strings.Join(vips, "; ")
}

// logs are the lines that agents wrote between two points in time, in the order of time.
func (s *split) logs(from, to time.Time) string {
	var lines []string
	for _, m := range s.judge.machines {
		p, _ := s.Process("agent-" + m)
		file, err := os.Open(p.Log)
		if err != nil {
			continue
		}
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			text, isLine := strings.CutPrefix(scanner.Text(), "time=")
			stamp, rest, _ := strings.Cut(text, " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			if isLine && err == nil && at.After(from) && at.Before(to) {
				lines = append(lines, fmt.Sprintf("  %s %s: %s", at.Format("15:04:05.000"), m, rest))
			}
		}
		file.Close()
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// report says what the longest times were.
func (s *split) report(cuts int) {
	s.b.Helper()
	s.tell("%d cuts of %d machines, %d questions: %d findings broke a law", cuts, len(s.judge.machines), s.asked, s.broken)
	for _, name := range slices.Sorted(maps.Keys(s.longest)) {
		f := s.longest[name]
		s.tell("longest of %s: %s", name, f)
		s.measured.Add("ms-"+strings.ReplaceAll(name, " ", "-"), ms(f.net))
	}
	s.measured.Add("laws-broken", float64(s.broken))
	s.settled()
}

// mend has all run again, so that the home can be taken down.
func (s *split) mend() {
	for _, a := range s.places {
		a.Stop()
	}
	for _, m := range s.judge.machines {
		if s.judge.is.frozen[m] {
			_ = s.ReviveMachine(s.b.Context(), m)
		}
	}
	if s.api != nil {
		<-s.api
	}
}
