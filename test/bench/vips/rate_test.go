package vips

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/bench/results"
)

// BenchmarkRate has Services, each with its EndpointSlice, wait until a controller is started, and measures how
// many of them get their address in a second, from the first to the last
// ("services/s"), how long it takes from the start of the program until all have one
// ("s/start"), how much is written for each, Events included ("writes/service"), and the
// controller's memory right after that ("MB"). Then one is deleted, and what is written for
// that is counted ("writes/delete"), and what of it to Services ("service-writes/delete": a
// finalizer of its own is one).
//
// The floor is a program that makes the writes of Plinth and decides nothing. What Plinth
// reaches of it, of MetalLB's rate and of its own former one, and each with 3,000 Services of
// its rate with 1,000, is the median of the rounds' ratios ("of-services/s"): of two that ran
// within a minute, since the machine changes within an hour. Results are named
// contender/Services, and ratios plinth/1000÷metallb_1000.
func BenchmarkRate(b *testing.B) {
	s := newStand(b)
	measured, contenders := results.New(*rounds), s.contenders()
	if wanted("floor") {
		contenders = append(contenders, s.floor())
	}
	all := sizes(1000, 3000)
	for i := range *rounds {
		for _, n := range all {
			for _, c := range contenders {
				name := fmt.Sprintf("%s/%d", c.name, n)
				s.rate(c, n, measured.Of(name))
				measured.Progress(name, i+1)
			}
		}
		slices.Reverse(contenders) // nobody is always the one after
	}
	for _, n := range all {
		for _, other := range []string{"floor", "metallb", "before"} {
			measured.Ratio(fmt.Sprintf("plinth/%d", n), fmt.Sprintf("%s/%d", other, n), "services/s")
		}
	}
	if len(all) == 2 {
		for _, c := range contenders {
			measured.Ratio(c.name+"/3000", c.name+"/1000", "services/s")
		}
	}
	measured.Report(b)
}

func (s *stand) rate(c contender, n int, r *results.Result) {
	s.b.Helper()
	all := names(c.name, 0, n)
	s.each(all, s.createSlice) // else each is told that it has no endpoint
	s.each(all, s.createService)
	wait := s.served(n)
	before := s.writes()
	begun := time.Now()
	p := c.controller()
	first, last := wait(5 * time.Minute)
	r.Add("services/s", float64(n-1)/last.Sub(first).Seconds())
	r.Add("s/start", last.Sub(begun).Seconds())
	r.Add("writes/service", s.quiet(before)/float64(n))
	r.Add("MB", s.memory(p))

	before = s.writes()
	check(s.b, s.deleteService(s.b.Context(), all[n/2]))
	r.Add("writes/delete", s.quiet(before)-1) // without ours
	r.Add("service-writes/delete", s.writes()["services"]-before["services"]-1)

	s.each(append(slices.Clone(all[:n/2]), all[n/2+1:]...), s.deleteService)
	s.left(0)
	s.each(all, s.deleteSlice)
	s.quiet(before)
	p.Kill()
	s.forget()
}

// forget has no address rest any more, so that every round finds the same.
func (s *stand) forget() {
	s.b.Helper()
	err := s.Client.CoreV1().ConfigMaps("kube-system").Delete(context.Background(), "plinth-released", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		check(s.b, err)
	}
}
