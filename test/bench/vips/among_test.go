package vips

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/bench/fib"
	"plinth.dev/plinth/test/bench/results"
)

const (
	probes       = 100 // Services that are created one by one in a round
	metallbMost  = 1000
	pauseBetween = 20 * time.Millisecond // nothing of one Service is left to do when the next comes
	atRest       = 12 * time.Second      // garbage is collected, and memory returned, by then
)

// BenchmarkAmong measures, with 0, 1,000, 3,000 and 10,000 Services present, each with
// its EndpointSlice:
//
//   - from the start of the agent until all routes are in the router's kernel ("s/start");
//   - from the creation of a Service until its route is there, one by one ("create") and
//     right after another one was deleted ("after-delete"), in milliseconds, and what of
//     both is left once a watch has shown the Service ("create-seen", "after-delete-seen");
//   - memory of the agent and of the controller at rest after that ("MB-agent",
//     "MB-controller");
//   - for Plinth, from a start after a SIGTERM and after a kill until the session is up
//     ("s/restart"), and how many routes the router lost meanwhile, in the worst round
//     ("lost/restart").
//
// The floor is the API server's own ("create"): a program without a thought in it that creates
// an IPAddress object for each Service that it sees, until a third one sees that. Results are
// named contender/Services.
func BenchmarkAmong(b *testing.B) {
	s := newStand(b)
	measured, present := results.New(*rounds), 0
	for _, n := range sizes(0, 1000, 3000, 10_000) {
		s.populate(present, n)
		present = n
		for i := range *rounds {
			for _, c := range s.contenders() {
				if c.ours || n <= metallbMost {
					name := fmt.Sprintf("%s/%d", c.name, n)
					s.among(c, n, measured.Of(name))
					measured.Progress(name, i+1)
				}
			}
			measured.Of(fmt.Sprintf("floor/%d", n)).Times("create", s.leastTimes())
		}
	}
	measured.Report(b)
}

// populate has Plinth serve Services from a number up to another.
func (s *stand) populate(from, to int) {
	s.b.Helper()
	all := names("present", from, to)
	s.each(all, func(ctx context.Context, name string) error {
		if err := s.createSlice(ctx, name); err != nil {
			return err
		}
		return s.createService(ctx, name)
	})
	wait := s.served(to)
	p := s.plinth().start(s)
	wait(5 * time.Minute)
	before := s.writes()
	s.quiet(before)
	p.Kill()
}

// among measures one contender among the Services that are there.
func (s *stand) among(c contender, n int, r *results.Result) {
	s.b.Helper()
	controller := c.start(s)
	s.quiet(s.writes())
	begun := time.Now()
	speaker := c.speaker()
	if n > 0 {
		s.router.holds(5*time.Minute, n)
		r.Add("s/start", time.Since(begun).Seconds())
	}
	s.router.established()
	s.quiet(s.writes())
	s.probe(c, n, r)
	time.Sleep(atRest)
	r.Add("MB-agent", s.memory(speaker))
	r.Add("MB-controller", s.memory(controller))
	if c.ours && n > 0 {
		speaker = s.restarts(c, n, speaker, r)
	}
	speaker.Terminate()
	controller.Kill()
	s.router.ask("restart w1") // it forgets what it holds for an agent that comes back
	s.router.holds(time.Minute, 0)
}

// restarts ends the agent in both ways and starts it again; no route may leave the
// router meanwhile.
func (s *stand) restarts(c contender, n int, p *apiserver.Process, r *results.Result) *apiserver.Process {
	s.b.Helper()
	before := s.router.lost()
	for _, end := range []func(){p.Terminate, func() { p.Kill() }} {
		end()
		begun := time.Now()
		p = c.speaker()
		s.router.established()
		r.Add("s/restart", time.Since(begun).Seconds())
		s.router.holds(time.Second, n)
	}
	r.Most("lost/restart", float64(s.router.lost()-before))
	return p
}

// probe creates Services one by one, and waits for the route of each.
func (s *stand) probe(c contender, n int, r *results.Result) {
	s.b.Helper()
	all := names("probe-"+c.name, 0, probes)
	s.each(all, s.createSlice)
	ctx, stop := context.WithCancel(s.b.Context())
	defer stop()
	shown := s.sightings(ctx)
	var took, own []time.Duration
	for _, name := range all {
		whole, seen := s.createAndAwait(name, shown)
		took, own = append(took, whole), append(own, seen)
		time.Sleep(pauseBetween)
	}
	r.Times("create", took)
	r.Times("create-seen", own)

	more := names("again-"+c.name, 0, c.deletions)
	s.each(more, s.createSlice)
	took, own = nil, nil
	for i, name := range more {
		check(s.b, s.deleteService(s.b.Context(), all[i]))
		whole, seen := s.createAndAwait(name, shown)
		took, own = append(took, whole), append(own, seen)
		time.Sleep(pauseBetween)
	}
	r.Times("after-delete", took)
	r.Times("after-delete-seen", own)

	s.each(append(all[len(more):], more...), s.deleteService)
	s.each(append(all, more...), s.deleteSlice)
	s.left(n)
	s.router.holds(time.Minute, n)
	s.quiet(s.writes())
	s.forget()
}

// sighting is when a watch showed that a Service is there.
type sighting struct {
	name string
	at   time.Time
}

// sightings are those of Services, in the order of their creation.
type sightings <-chan sighting

// of waits until a Service is shown, and passes over those before it.
func (all sightings) of(name string) time.Time {
	for x := range all {
		if x.name == name {
			return x.at
		}
	}
	return time.Time{} // the benchmark is over
}

// sightings follows the Services that are created from now on, until ctx ends.
func (s *stand) sightings(ctx context.Context) sightings {
	s.b.Helper()
	w, err := s.fast.CoreV1().Services(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer", ResourceVersion: s.version()})
	check(s.b, err)
	all := make(chan sighting, 2*probes)
	go func() {
		defer close(all)
		for e := range w.ResultChan() {
			if svc, ok := e.Object.(*corev1.Service); ok && e.Type == watch.Added {
				all <- sighting{svc.Name, time.Now()}
			}
		}
	}()
	return all
}

// createAndAwait returns how long it took from the request that creates a Service
// until the router's kernel had a route that it did not have before, and how long
// from when a watch showed the Service.
func (s *stand) createAndAwait(name string, shown sightings) (whole, seen time.Duration) {
	s.b.Helper()
	begun := time.Now()
	check(s.b, s.createService(s.b.Context(), name))
	var at time.Time
	s.router.await(time.Minute, "a route to "+name, func(v fib.View) bool {
		at = v.Newest
		return at.After(begun)
	})
	return at.Sub(begun), at.Sub(shown.of(name))
}

// leastTimes are what the API server alone takes: Service created, seen by a second client,
// IPAddress created by it, seen by a third.
func (s *stand) leastTimes() (took []time.Duration) {
	s.b.Helper()
	ctx, stop := context.WithCancel(s.b.Context())
	defer stop()
	shown := s.sightings(ctx)
	addresses, err := s.fast.NetworkingV1().IPAddresses().Watch(ctx, metav1.ListOptions{LabelSelector: "floor", ResourceVersion: s.version()})
	check(s.b, err)
	for i, name := range names("floor", 0, probes) {
		begun := time.Now()
		check(s.b, s.createService(ctx, name))
		shown.of(name)
		check(s.b, s.createAddress(ctx, netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}), name))
		<-addresses.ResultChan()
		took = append(took, time.Since(begun))
		check(s.b, s.deleteService(ctx, name))
		check(s.b, s.deleteAddress(ctx, netip.AddrFrom4([4]byte{198, 18, 0, byte(i)})))
		<-addresses.ResultChan()
		time.Sleep(pauseBetween)
	}
	return took
}
