package rollouts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"plinth.dev/plinth/test/bench/results"
)

// rate is how many connections a second the client opens to each VIP.
const rate = 80

// BenchmarkRollouts counts, for each contender and Service, the connections that a client
// opened ("connections"), those of them that were lost or answered after more than half a
// second ("lost"), and those that were under way when a router moved them, and reset ("cut").
// A result is named contender/mode of kube-proxy/Service.
func BenchmarkRollouts(b *testing.B) {
	s := newStand(b)
	all := map[string]*total{}
	for i := range *rounds {
		for _, c := range s.contenders(i) {
			c.start()
			s.warm(c)
			for name, one := range s.turn(c) {
				if all[name] == nil {
					all[name] = &total{}
				}
				all[name].add(one)
				fmt.Fprintf(os.Stderr, "%s, round %d of %d: %+v\n", name, i+1, *rounds, one)
			}
			c.stop()
		}
	}
	measured := results.New(*rounds)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, t := measured.Of(name), all[name]
		r.Add("connections", float64(t.connections))
		r.Add("lost", float64(t.lost))
		r.Add("cut", float64(t.cut))
	}
	measured.Report(b)
}

// total is what became of connections.
type total struct{ connections, lost, cut int }

func (t *total) add(o total) {
	t.connections, t.lost, t.cut = t.connections+o.connections, t.lost+o.lost, t.cut+o.cut
}

// turn has all rollouts happen once, and counts by contender, mode of kube-proxy and Service.
func (s *stand) turn(c contender) map[string]total {
	s.b.Helper()
	r := s.NewRollouts()
	r.Change = c.serves
	check(s.b, r.Begin(s.b.Context(), rate))
	check(s.b, r.Run(s.b.Context(), *requests))
	all := map[string]total{}
	for _, report := range r.End() {
		s.isOf(c, report.VIP)
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.name, report)
		name, lost := c.name+"/"+*proxyMode+"/"+report.Service, len(report.Lost)
		sum := all[name]
		sum.add(total{report.Sent, lost + report.Slow, report.Report.Lost - lost})
		all[name] = sum
	}
	check(s.b, r.Remove(context.WithoutCancel(s.b.Context())))
	return all
}
