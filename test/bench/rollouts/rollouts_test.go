package rollouts

import (
	"context"
	"fmt"
	"os"
	"testing"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/real"
)

const (
	// rate is how many connections a second the client opens to each VIP, and dualRate to each of two of a Service.
	rate, dualRate = 80, 40
	// excused is the share of the connections of a Service with both families that may be excused.
	excused = 0.01
)

// BenchmarkRollouts counts, for each contender and Service, the connections that a client
// opened ("connections"), those of them that were lost or answered after more than half a
// second ("lost"), those that were reset or sent back when a router moved them ("cut"), and
// those of which nobody can tell since this machine stood still ("stalled"). A result is named contender/mode of kube-proxy/Service.
func BenchmarkRollouts(b *testing.B) {
	s := newStand(b)
	all := results.Tally{}
	for i := range *rounds {
		for _, c := range s.contenders(i) {
			c.start()
			s.warm(c)
			for name, one := range s.turn(c) {
				all.Add(name, one)
				fmt.Fprintf(os.Stderr, "%s, round %d of %d: %+v\n", name, i+1, *rounds, one)
			}
			c.stop()
		}
	}
	reportAll(b, all)
}

// BenchmarkRolloutsDualStack counts the same of Plinth alone, whose VIPs are of both families: on the lab's machines
// behind FRR and BIRD, or with -real on real ones (kubelet, containerd) behind the router of -router. A result is named
// lab or real/mode of kube-proxy/router/Service/family.
func BenchmarkRolloutsDualStack(b *testing.B) {
	l, where := dualStack(b)
	all := results.Tally{}
	for i := range *rounds {
		r := l.NewRollouts()
		check(b, r.Begin(b.Context(), dualRate))
		check(b, r.Run(b.Context(), *requests))
		for _, report := range r.End() {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", i+1, *rounds, report)
			family := "ipv4"
			if report.VIP.Is6() {
				family = "ipv6"
			}
			all.Add(where+"/"+report.Service+"/"+family, connectionsOf(report))
		}
		check(b, r.Remove(context.WithoutCancel(b.Context())))
	}
	reportAll(b, all)
	check(b, all.TooManyExcused(excused))
}

func reportAll(b *testing.B, all results.Tally) {
	measured := results.New(*rounds)
	all.Into(measured)
	measured.Report(b)
}

// dualStack is the lab with Plinth's agents, and what its results are called.
func dualStack(b *testing.B) (l *lab.Lab, where string) {
	b.Helper()
	if !*onReal {
		s := newLab(b)
		for _, m := range s.Topology.Machines() {
			check(b, s.WaitSessions(b.Context(), m.Name))
		}
		return s, "lab/" + *proxyMode + "/both"
	}
	root, err := components.Root()
	check(b, err)
	_, err = real.MakeImages(b.Context(), root, real.Version)
	check(b, err)
	g, err := real.Start(b.Context(), real.Options{Name: labName, Install: "helm", ProxyMode: *proxyMode, RouterOS: *routerOS})
	check(b, err)
	downAtEnd(b, g.Lab)
	check(b, g.Install(b.Context()))
	return g.Lab, "real/" + *proxyMode + "/" + *routerOS
}

func connectionsOf(r lab.RolloutReport) results.Connections {
	lost := len(r.Lost)
	return results.Connections{Opened: r.Sent, Lost: lost + r.Slow, Cut: r.Report.Lost - lost, Stalled: r.Stalled}
}

// turn has all rollouts happen once, and counts by contender, mode of kube-proxy and Service.
func (s *stand) turn(c contender) results.Tally {
	s.b.Helper()
	r := s.NewRollouts()
	r.Change = c.serves
	check(s.b, r.Begin(s.b.Context(), rate))
	check(s.b, r.Run(s.b.Context(), *requests))
	all := results.Tally{}
	for _, report := range r.End() {
		s.isOf(c, report.VIP)
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.name, report)
		all.Add(c.name+"/"+*proxyMode+"/"+report.Service, connectionsOf(report))
	}
	check(s.b, r.Remove(context.WithoutCancel(s.b.Context())))
	return all
}
