package gate

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/bench/fib"
	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
)

// manyAddresses is room for the Services of BenchmarkStart.
const manyAddresses = "10.99.0.0/16"

// BenchmarkStart measures how long it takes from the start of an agent until the router's
// kernel has routes to 3,000 VIPs that kube-proxy has rules for: of an agent that is the
// first on its machine, and so asks about each of them ("s/start"), and of one that finds the
// state of another ("s/restart"). The router has forgotten what it was told before.
func BenchmarkStart(b *testing.B) {
	measured := results.New(*rounds)
	for _, mode := range modes() {
		s := newStand(b, mode, 1, true, manyAddresses)
		s.populate(*present)
		for i := range *rounds {
			for _, c := range contenders(i) {
				name := c.name + "/" + mode
				s.starts(c, *present, measured.Of(name))
				measured.Progress(name, i+1)
			}
		}
		s.close()
		for _, other := range contenders(0)[1:] {
			for _, unit := range []string{"s/start", "s/restart"} {
				measured.Ratio("gate/"+mode, other.name+"/"+mode, unit)
			}
		}
	}
	measured.Report(b)
}

// starts is one turn of a contender.
func (s *stand) starts(c contender, n int, r *results.Result) {
	s.b.Helper()
	s.halt()
	s.forgetState()
	for _, unit := range []string{"s/start", "s/restart"} {
		begun := time.Now()
		s.start(c)
		s.await(2*time.Minute, fmt.Sprintf("%s has all routes", c.name), func(v fib.View) bool { return len(v.There) >= n })
		r.Add(unit, time.Since(begun).Seconds())
		s.ready()
		if unit == "s/start" {
			r.Add("overdue", float64(s.gated(c, n)))
		}
		s.halt()
	}
}

// halt ends the agents, and waits until the router has forgotten what they said.
func (s *stand) halt() {
	s.b.Helper()
	s.stop()
	s.await(time.Minute, "the router forgets", func(v fib.View) bool { return len(v.There) == 0 })
}

// populate creates Services that all have the same pod as their endpoint, and waits until
// the router has a route to each.
func (s *stand) populate(n int) {
	s.b.Helper()
	check(s.b, s.RunWeb(s.b.Context(), lab.Web{Name: "web", Replicas: 1}))
	pods, err := s.Pods(s.b.Context(), "web")
	check(s.b, err)
	endpoint := pods[0].Status.PodIP
	work, failed := make(chan int), make(chan error, n)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range work {
				if err := s.create(s.b.Context(), fmt.Sprintf("present-%05d", i), endpoint); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	select {
	case err := <-failed:
		s.b.Fatal(err)
	default:
	}
	s.await(5*time.Minute, "all Services are announced", func(v fib.View) bool { return len(v.There) >= n })
}

func (s *stand) create(ctx context.Context, name, endpoint string) error {
	off, ready, http, port := false, true, "http", int32(8080)
	_, err := s.Kube.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{endpoint}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &http, Port: &port}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.Kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &off, // a cluster has fewer node ports
			Ports: []corev1.ServicePort{{Name: http, Port: 80}},
		},
	}, metav1.CreateOptions{})
	return err
}
