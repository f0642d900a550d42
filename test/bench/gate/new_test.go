package gate

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/wait"
)

const (
	// rate is how many connections a second the client opens to a new VIP: a first answer is
	// seen half of 10 ms late at the median, whoever the contender.
	rate = 100
	// watched is for how long it goes on after the first answer.
	watched = 1500 * time.Millisecond
	// overdue is when a VIP is announced at the latest: the bound is 45 s.
	overdue = 60 * time.Second
)

// served is when a new VIP is answered at the latest: kube-proxy has its rules at its next sync.
func served() time.Duration { return overdue + cmp.Or(*minSync, time.Second) }

// idle is more than kube-proxy's minSyncPeriod: it has nothing left to do.
func idle() time.Duration { return cmp.Or(*minSync, time.Second) + 500*time.Millisecond }

// families are those of the VIPs of a Service, in that order. They are told apart, since
// kube-proxy writes the rules of one after those of the other.
var families = []string{"ipv4", "ipv6"}

// BenchmarkNewVIP creates Services one by one, in both families, on a cluster that has
// nothing else to do. It measures, from the request that creates a Service, the time until the
// router's kernel has a route to a VIP ("route") and until a client's connection to that
// is answered ("answer"), in milliseconds and by family. When that is depends on when
// kube-proxy writes its rules, at once or a second later. So it is measured, too, how long
// after a connection from the machine itself, which the rules alone decide about, the client's
// is answered ("after-rules"). Besides, how many connections the client lost after the
// route was there ("lost", in a turn), for how long at the most nobody answered then ("ms-unanswered"), and how many
// VIPs were announced because the bound was over ("overdue", in a turn).
func BenchmarkNewVIP(b *testing.B) {
	measured := results.New(*rounds)
	for _, mode := range modes() {
		s := newStand(b, mode, 1, false)
		check(b, s.RunWeb(b.Context(), lab.Web{Name: "web", Replicas: 1}))
		s.crowd(*beside)
		for i := range *rounds {
			for _, c := range contenders(i) {
				name := c.name + "/" + mode + conditions()
				s.newVIPs(c, fmt.Sprintf("%s-%d", c.name, i), measured.Of(name))
				measured.Progress(name, i+1)
			}
		}
		s.close()
	}
	measured.Report(b)
}

// crowd creates so many Services of type ClusterIP, and waits until kube-proxy has the rules of the last one.
func (s *stand) crowd(n int) {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 10*time.Minute)
	defer cancel()
	var last *corev1.Service
	for i := range n {
		service := lab.LoadBalancer(fmt.Sprintf("beside-%d", i), "web")
		service.Spec.Type = corev1.ServiceTypeClusterIP
		made, err := s.Kube.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
		check(s.b, err)
		last = made
	}
	if last == nil {
		return
	}
	for _, address := range last.Spec.ClusterIPs {
		probe := s.ProbeFrom(ctx, s.Topology.Machines()[0].Name, lab.URL(netip.MustParseAddr(address), lab.WebPort), 1)
		check(s.b, wait.Until(ctx, time.Second, func(context.Context) error { return allAnswered([]*lab.Prober{probe}) }))
		probe.Stop()
	}
}

// newVIPs is one turn of a contender.
func (s *stand) newVIPs(c contender, prefix string, r *results.Result) {
	s.b.Helper()
	s.stop()
	s.start(c)
	s.ready()
	lost, unanswered := 0, time.Duration(0)
	for i := range *samples {
		time.Sleep(idle())
		for k, one := range s.newVIP(fmt.Sprintf("%s-%d", prefix, i)) {
			r.Times("route-"+families[k], []time.Duration{one.route})
			r.Times("answer-"+families[k], []time.Duration{one.answer})
			r.Times("after-rules-"+families[k], []time.Duration{one.answer - one.rules})
			lost, unanswered = lost+one.lost, max(unanswered, one.answer-one.route)
		}
	}
	r.Most("lost", float64(lost))
	r.Most("ms-unanswered", float64(unanswered.Microseconds())/1000)
	r.Most("overdue", float64(s.gated(c, len(families)**samples)))
}

// sample is what became of one new VIP.
type sample struct {
	route, answer, rules time.Duration
	lost                 int
}

// newVIP creates a Service, and deletes it again when its VIPs have been measured.
func (s *stand) newVIP(name string) (all []sample) {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), served()+time.Minute)
	defer cancel()
	shown := s.watchService(ctx, name)
	s.routes.Forget()
	begun := time.Now()
	service := lab.LoadBalancer(name, "web")
	if *local {
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	_, err := s.Kube.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	check(s.b, err)
	vips := addressesIn(ctx, shown)
	if len(vips) != len(families) {
		s.b.Fatalf("service %s has got the VIPs %v, want one of each family", name, vips)
	}
	machine := s.Topology.Machines()[0].Name
	var probes, inside []*lab.Prober
	for _, vip := range vips {
		inside = append(inside, s.ProbeFrom(ctx, machine, lab.URL(vip, lab.WebPort), rate))
		probes = append(probes, s.Probe(ctx, lab.URL(vip, lab.WebPort), rate))
	}
	check(s.b, wait.Until(ctx, 20*time.Millisecond, func(context.Context) error { return allAnswered(slices.Concat(probes, inside)) }))
	time.Sleep(watched)
	for i, p := range probes {
		report, rules, route := p.Stop(), inside[i].Stop(), s.routes.First(vips[i])
		if route.IsZero() {
			s.b.Fatalf("%s is answered, and the router has no route to it: %s", vips[i], report)
		}
		late := slices.DeleteFunc(report.Losses, func(sent time.Time) bool { return sent.Before(route) })
		all = append(all, sample{route.Sub(begun), report.FirstAnswer.Sub(begun), rules.FirstAnswer.Sub(begun), len(late)})
	}
	s.remove(name, vips)
	return all
}

func allAnswered(probes []*lab.Prober) error {
	for _, p := range probes {
		if r := p.Report(); r.FirstAnswer.IsZero() {
			return fmt.Errorf("no answer yet: %s", r)
		}
	}
	return nil
}

func (s *stand) remove(name string, vips []netip.Addr) {
	s.b.Helper()
	check(s.b, s.RemoveService(s.b.Context(), name))
	for _, vip := range vips {
		check(s.b, s.WaitGone(s.b.Context(), vip))
	}
}

// watchService follows a Service that is not there yet.
func (s *stand) watchService(ctx context.Context, name string) watch.Interface {
	s.b.Helper()
	services := s.Kube.CoreV1().Services("default")
	list, err := services.List(ctx, metav1.ListOptions{Limit: 1})
	check(s.b, err)
	w, err := services.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.ResourceVersion})
	check(s.b, err)
	return w
}

// addressesIn waits until a watch shows the VIPs of a Service, IPv4 before IPv6.
func addressesIn(ctx context.Context, w watch.Interface) (vips []netip.Addr) {
	defer w.Stop()
	for {
		select {
		case e := <-w.ResultChan():
			svc, ok := e.Object.(*corev1.Service)
			if !ok || len(svc.Status.LoadBalancer.Ingress) == 0 {
				continue
			}
			for _, i := range svc.Status.LoadBalancer.Ingress {
				if a, err := netip.ParseAddr(i.IP); err == nil {
					vips = append(vips, a)
				}
			}
			slices.SortFunc(vips, netip.Addr.Compare)
			return vips
		case <-ctx.Done():
			return nil
		}
	}
}
