package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Rollouts is a Deployment and a DaemonSet whose pods are rolled, scaled and drained while
// clients connect to them: each behind one Service with externalTrafficPolicy Local and one
// with Cluster, in both families. A pod takes two seconds to be ready, and serves on for ten
// after SIGTERM.
type Rollouts struct {
	Clients []RolloutClient
	// Change changes each Service before it is created; nil: they are as they are.
	Change func(*corev1.Service)

	lab                   *Lab
	deployment, daemonSet Web
	moves                 func() map[netip.Addr][]Change
}

// RolloutClient sends requests to one VIP of a Service.
type RolloutClient struct {
	Service string // its name says what it is for
	VIP     netip.Addr
	*Prober
}

// NewRollouts returns what is yet to begin.
func (l *Lab) NewRollouts() *Rollouts {
	const readyAfter, linger = 2 * time.Second, 10 * time.Second
	return &Rollouts{
		lab:        l,
		deployment: Web{Name: "deployment", Replicas: 1, Crowded: true, ReadyAfter: readyAfter, Linger: linger},
		daemonSet:  Web{Name: "daemonset", Everywhere: true, ReadyAfter: readyAfter, Linger: linger},
	}
}

// Begin runs the pods, and has clients send so many requests a second to each VIP. It
// returns once none of them has lost any for a second.
func (r *Rollouts) Begin(ctx context.Context, rate int) error {
	err := together(
		func() error { return r.lab.RunWeb(ctx, r.deployment) },
		func() error { return r.lab.RunWeb(ctx, r.daemonSet) })
	if err != nil {
		return err
	}
	var vips []netip.Addr
	for _, s := range r.services() {
		of, err := r.lab.Expose(ctx, s)
		if err != nil {
			return err
		}
		for _, vip := range of {
			if err := r.lab.WaitServed(ctx, vip); err != nil {
				return err
			}
			r.Clients = append(r.Clients, RolloutClient{s.Name, vip, r.lab.Probe(ctx, URL(vip, WebPort), rate)})
			vips = append(vips, vip)
		}
	}
	if r.moves, err = r.lab.RouterMoves(ctx, vips); err != nil {
		return err
	}
	for _, c := range r.Clients {
		if err := c.Steady(ctx, time.Second); err != nil {
			return fmt.Errorf("%s, %s: %w", c.Service, c.VIP, err)
		}
		c.Forget()
	}
	return nil
}

// services are one for each externalTrafficPolicy of each workload.
func (r *Rollouts) services() (all []*corev1.Service) {
	for _, w := range []Web{r.deployment, r.daemonSet} {
		for name, policy := range map[string]corev1.ServiceExternalTrafficPolicy{
			"local": corev1.ServiceExternalTrafficPolicyLocal, "cluster": corev1.ServiceExternalTrafficPolicyCluster,
		} {
			s := LoadBalancer(w.Name+"-"+name, w.Name)
			s.Spec.ExternalTrafficPolicy = policy
			if r.Change != nil {
				r.Change(s)
			}
			all = append(all, s)
		}
	}
	return all
}

// Run restarts the DaemonSet. Meanwhile the Deployment's only pod is replaced, becomes four,
// all four are replaced, the machine of one is drained, and one is left. It goes on until
// each Service has had so many requests.
func (r *Rollouts) Run(ctx context.Context, requests int) error {
	err := together(
		func() error { return r.lab.RestartWeb(ctx, r.daemonSet) },
		func() error { return r.rollDeployment(ctx) })
	if err != nil {
		return err
	}
	return Within(ctx, time.Minute, func(context.Context) error {
		sent := map[string]int{}
		for _, c := range r.Clients {
			sent[c.Service] += c.Report().Sent
		}
		for service, n := range sent {
			if n < requests {
				return fmt.Errorf("%s has had %d of %d requests", service, n, requests)
			}
		}
		return nil
	})
}

func (r *Rollouts) rollDeployment(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		r.restart,
		func(ctx context.Context) error { return r.scale(ctx, 4) },
		r.restart,
		r.drain,
		func(ctx context.Context) error { return r.scale(ctx, 1) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rollouts) restart(ctx context.Context) error { return r.lab.RestartWeb(ctx, r.deployment) }

// scale returns once all pods are ready and the others have gone.
func (r *Rollouts) scale(ctx context.Context, replicas int32) error {
	r.deployment.Replicas = replicas
	return errors.Join(r.lab.ScaleWeb(ctx, r.deployment.Name, replicas), r.lab.waitWeb(ctx, r.deployment))
}

// drain evicts the pods of the last machine that has one of the Deployment.
func (r *Rollouts) drain(ctx context.Context) error {
	pods, err := r.lab.Pods(ctx, r.deployment.Name)
	if err != nil {
		return err
	}
	var machines []string
	for _, p := range pods {
		machines = append(machines, p.Spec.NodeName)
	}
	drained := slices.Max(machines)
	err = errors.Join(r.lab.Drain(ctx, drained), r.lab.waitWeb(ctx, r.deployment))
	return errors.Join(err, r.lab.Uncordon(context.WithoutCancel(ctx), drained))
}

// RolloutReport is what became of one client's requests.
type RolloutReport struct {
	Service string
	VIP     netip.Addr
	Report
	Moves []Change    // of routers that changed their route to the VIP
	Lost  []time.Time // when those requests were sent that were lost and that no move explains
}

// End ends the clients.
func (r *Rollouts) End() []RolloutReport {
	var all []RolloutReport
	moves := r.moves()
	for _, c := range r.Clients {
		report := c.Stop()
		all = append(all, RolloutReport{c.Service, c.VIP, report, moves[c.VIP], report.NotMoved(moves[c.VIP])})
	}
	return all
}

func (r RolloutReport) String() string {
	return fmt.Sprintf("%s, %s: %d of %d new connections were lost, and %d came late; of all: %s", r.Service, r.VIP, len(r.Lost), r.Sent, r.Slow, r.Report)
}

// Err says what was lost or came late, and what routers did meanwhile; nil: nothing was.
func (r RolloutReport) Err() error {
	if len(r.Lost)+r.Slow == 0 {
		return nil
	}
	var b strings.Builder
	tell := func(what string, at time.Time) { fmt.Fprintf(&b, "\n%s %s", at.Format(time.StampMilli), what) }
	for _, at := range r.Lost {
		tell("lost", at)
	}
	for _, at := range r.Late {
		tell("late", at)
	}
	for _, m := range r.Moves {
		if m.At.IsZero() {
			fmt.Fprintf(&b, "\nbefore: %s %s", m.Host, m.Text)
			continue
		}
		tell(m.Host+" "+m.Text, m.At)
	}
	return fmt.Errorf("%s:%s", r, &b)
}

// Remove ends and deletes whatever has begun.
func (r *Rollouts) Remove(ctx context.Context) error {
	for _, c := range r.Clients {
		c.Stop()
	}
	var removals []func() error
	for _, s := range r.services() {
		if _, err := r.lab.VIPs(ctx, s.Name); err == nil {
			removals = append(removals, func() error { return r.lab.RemoveService(ctx, s.Name) })
		}
	}
	for _, w := range []Web{r.deployment, r.daemonSet} {
		removals = append(removals, func() error { return r.lab.RemoveWeb(ctx, w) })
	}
	return together(removals...)
}

// together does all at once.
func together(all ...func() error) error {
	var wait sync.WaitGroup
	failed := make([]error, len(all))
	for i, do := range all {
		wait.Go(func() { failed[i] = do() })
	}
	wait.Wait()
	return errors.Join(failed...)
}

// Drain evicts a machine's pods, but those of DaemonSets, as whoever takes it out of service
// does, and waits until they have gone. No other pod comes there until it is uncordoned.
func (l *Lab) Drain(ctx context.Context, machine string) error {
	_, err := l.Kubectl(ctx, "drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=2m")
	return err
}

// Uncordon lets pods come to a machine again.
func (l *Lab) Uncordon(ctx context.Context, machine string) error {
	_, err := l.Kubectl(ctx, "uncordon", machine)
	return err
}
