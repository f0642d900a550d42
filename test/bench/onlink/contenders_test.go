package onlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/lab"
)

// contender gives Services VIPs of the subnet, and answers for them.
type contender interface {
	// install does what is done once, before any start.
	install(context.Context) error
	// start and end are of what gives out addresses; a contender that always runs has neither.
	start(context.Context) error
	end(context.Context) error
	// startOn and endOn are of the program on a machine that answers.
	startOn(ctx context.Context, machine string) error
	endOn(ctx context.Context, machine string, s syscall.Signal) error
	// serves changes a Service to one that the contender serves.
	serves(*corev1.Service)
	// names reports whether anything that a person would look at names a stranger with an address.
	names(ctx context.Context, service string, stranger lab.MAC) (bool, error)
}

// contenders are all that take part, by name, in the order of their turns.
func contenders(l *lab.Lab) []named {
	all := []named{{"metallb", &theirs{l: l}}, {"plinth", &ours{l}}}
	return slices.DeleteFunc(all, func(n named) bool { return !wanted(*only, n.name) })
}

type named struct {
	name string
	contender
}

// ours is Plinth, whose controller manager runs all the time: it looks after the Nodes.
type ours struct{ *lab.Lab }

func (o *ours) install(context.Context) error { return nil }
func (o *ours) start(context.Context) error   { return nil }
func (o *ours) end(context.Context) error     { return nil }
func (o *ours) serves(*corev1.Service)        {}

func (o *ours) startOn(ctx context.Context, machine string) error { return o.StartAgent(ctx, machine) }

func (o *ours) endOn(ctx context.Context, machine string, s syscall.Signal) error {
	return o.StopAgent(ctx, machine, s)
}

// names looks at the Service and its Events.
func (o *ours) names(ctx context.Context, service string, stranger lab.MAC) (bool, error) {
	s, err := o.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for _, c := range s.Status.Conditions {
		if strings.Contains(c.Message, stranger.String()) {
			return true, nil
		}
	}
	return inEvents(ctx, o.Lab, service, stranger)
}

func inEvents(ctx context.Context, l *lab.Lab, service string, stranger lab.MAC) (bool, error) {
	events, err := l.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Name == service && strings.Contains(e.Message, stranger.String())
	}), nil
}

// theirs is MetalLB.
type theirs struct {
	l *lab.Lab
	// inside is a kubeconfig for whoever is on a machine.
	inside string
}

// metallbPools are of the subnet, and none of Plinth's.
var metallbPools = []string{"10.10.1.128-10.10.1.177", "2001:db8:10:1::128-2001:db8:10:1::177"}

// metallbClass has MetalLB serve Services that Plinth leaves alone.
const metallbClass = "metallb"

func (t *theirs) install(ctx context.Context) (err error) {
	if t.inside, err = t.l.InsideKubeconfig(); err != nil {
		return err
	}
	c := metallb.Config{Pools: metallbPools, L2: true}
	for _, m := range t.l.Topology.Machines() {
		c.Nodes = append(c.Nodes, metallb.Node{Name: m.Name, Address: t.address(m.Name)})
	}
	return metallb.Install(programs, c, func(args ...string) error {
		_, err := t.l.Kubectl(ctx, args...)
		return err
	})
}

func (t *theirs) address(machine string) netip.Addr { return t.l.Topology.MachineAddress(machine).V4 }

func (t *theirs) start(context.Context) error {
	return t.run(lab.ControlHost, metallb.Controller, metallb.Controller, metallb.ControllerFlags(t.inside))
}

func (t *theirs) end(ctx context.Context) error {
	return t.l.Stop(ctx, metallb.Controller, syscall.SIGTERM)
}

func (t *theirs) startOn(_ context.Context, machine string) error {
	return t.run(machine, speakerOf(machine), metallb.Speaker, metallb.MemberFlags(t.inside, machine, t.address(machine)))
}

func (t *theirs) endOn(ctx context.Context, machine string, s syscall.Signal) error {
	return t.l.Stop(ctx, speakerOf(machine), s)
}

func speakerOf(machine string) string { return metallb.Speaker + "-" + machine }

func (t *theirs) run(host, name, program string, flags []string) error {
	_, err := t.l.Run(host, name, append([]string{filepath.Join(programs, program), "--lb-class=" + metallbClass}, flags...)...)
	return err
}

func (t *theirs) serves(s *corev1.Service) {
	class := metallbClass
	s.Spec.LoadBalancerClass = &class
}

// names looks at the Service's Events and at the logs of the speakers.
func (t *theirs) names(ctx context.Context, service string, stranger lab.MAC) (bool, error) {
	if yes, err := inEvents(ctx, t.l, service, stranger); yes || err != nil {
		return yes, err
	}
	var failed error
	for _, m := range t.l.Topology.Machines() {
		p, ok := t.l.Process(speakerOf(m.Name))
		if !ok {
			return false, fmt.Errorf("the speaker of %s does not run", m.Name)
		}
		text, err := os.ReadFile(p.Log)
		if strings.Contains(string(text), stranger.String()) {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}
	return false, failed
}
