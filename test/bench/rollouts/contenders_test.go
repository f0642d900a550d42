package rollouts

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/lab"
)

const (
	rack     = "r1"
	holdTime = 3 * time.Second // of all sessions
	// class has MetalLB serve Services that Plinth leaves alone.
	class = "metallb"
	// metallbPool is of the addresses that the routers take routes to, and that Plinth, which
	// begins with the first ones, does not come to.
	metallbPool = "203.0.113.64/26"
)

// stand is a lab with Plinth's controller manager, and agents and speakers for turns.
type stand struct {
	*lab.Lab
	b *testing.B
	// inside is a kubeconfig for whoever is on a machine.
	inside string
}

// newLab starts Plinth, with an agent on each machine, until the benchmark ends. One that fails leaves its logs.
func newLab(b *testing.B) *lab.Lab {
	b.Helper()
	t := lab.Topology{
		Name: labName, ProxyMode: *proxyMode, StaticPods: true,
		Routers: []lab.Router{{Name: "tor-a", OS: lab.FRR, ASN: 65101}, {Name: "tor-b", OS: lab.BIRD, ASN: 65102}},
		Racks: []lab.Rack{{
			Name: rack, Routers: []string{"tor-a", "tor-b"},
			Machines: []lab.Machine{{Name: "m1"}, {Name: "m2"}, {Name: "m3"}, {Name: "m4"}},
		}},
	}
	l, err := lab.Start(b.Context(), t, lab.Options{Name: labName, Progress: os.Stderr})
	check(b, err)
	downAtEnd(b, l)
	check(b, l.StartPlinth(b.Context(), lab.Inventory(t)))
	return l
}

func downAtEnd(b *testing.B, l *lab.Lab) {
	b.Cleanup(func() {
		if !b.Failed() {
			check(b, l.Down(context.Background()))
		}
	})
}

func newStand(b *testing.B) *stand {
	b.Helper()
	check(b, metallb.Build(programs))
	s := &stand{Lab: newLab(b), b: b}
	var err error
	s.inside, err = s.InsideKubeconfig()
	check(b, err)
	s.stopPlinth()
	s.installMetalLB()
	return s
}

// contender is one of those that take turns.
type contender struct {
	name        string
	start, stop func()
	class       *string // of the Services that it serves
}

// contenders are those that take turns; nobody is always the one after.
func (s *stand) contenders(round int) []contender {
	other := class
	all := []contender{
		{name: "plinth", start: s.startPlinth, stop: s.stopPlinth},
		{name: "metallb", start: s.startMetalLB, stop: s.stopMetalLB, class: &other},
	}
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

func (s *stand) startPlinth() {
	s.b.Helper()
	for _, m := range s.Topology.Machines() {
		check(s.b, s.StartAgent(s.b.Context(), m.Name))
	}
	for _, m := range s.Topology.Machines() {
		check(s.b, s.WaitSessions(s.b.Context(), m.Name))
	}
}

func (s *stand) stopPlinth() {
	s.b.Helper()
	for _, m := range s.Topology.Machines() {
		check(s.b, s.StopAgent(s.b.Context(), m.Name, syscall.SIGTERM))
	}
}

// installMetalLB tells it of the same routers, and of a part of the same pool.
func (s *stand) installMetalLB() {
	s.b.Helper()
	c := metallb.Config{ASN: lab.MachineASN, HoldTime: holdTime, Pools: []string{metallbPool}}
	for _, r := range s.Topology.Routers {
		c.Peers = append(c.Peers, metallb.Peer{Name: r.Name, Address: s.Topology.RouterAddress(r.Name, rack).V4, ASN: r.ASN})
	}
	for _, m := range s.Topology.Machines() {
		c.Nodes = append(c.Nodes, metallb.Node{Name: m.Name})
	}
	check(s.b, metallb.Install(programs, c, func(args ...string) error {
		_, err := s.Kubectl(s.b.Context(), args...)
		return err
	}))
}

func (s *stand) startMetalLB() {
	s.b.Helper()
	run := func(host, name, program string, flags []string) {
		_, err := s.Run(host, name, append([]string{filepath.Join(programs, program), "--lb-class=" + class}, flags...)...)
		check(s.b, err)
	}
	run(lab.ControlHost, metallb.Controller, metallb.Controller, metallb.ControllerFlags(s.inside))
	for _, m := range s.Topology.Machines() {
		run(m.Name, speakerOf(m), metallb.Speaker, metallb.SpeakerFlags(s.inside, m.Name))
	}
}

func (s *stand) stopMetalLB() {
	s.b.Helper()
	err := s.Stop(s.b.Context(), metallb.Controller, syscall.SIGTERM)
	for _, m := range s.Topology.Machines() {
		err = errors.Join(err, s.Stop(s.b.Context(), speakerOf(m), syscall.SIGTERM))
	}
	check(s.b, err)
}

func speakerOf(m lab.Machine) string { return metallb.Speaker + "-" + m.Name }

// serves changes a Service to one that the contender serves.
func (c contender) serves(service *corev1.Service) {
	single := corev1.IPFamilyPolicySingleStack
	service.Spec.IPFamilyPolicy, service.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPv4Protocol}
	service.Spec.LoadBalancerClass = c.class
}

// warm waits until all machines announce a VIP to both routers: all sessions are up.
func (s *stand) warm(c contender) {
	s.b.Helper()
	ctx := s.b.Context()
	check(s.b, s.RunWeb(ctx, lab.Web{Name: "warm", Replicas: 1}))
	service := lab.LoadBalancer("warm", "warm")
	c.serves(service)
	vips, err := s.Expose(ctx, service)
	check(s.b, err)
	for _, vip := range vips {
		check(s.b, s.WaitAnnounced(ctx, vip))
		s.isOf(c, vip)
	}
	check(s.b, s.RemoveService(ctx, service.Name))
	check(s.b, s.RemoveWeb(ctx, lab.Web{Name: "warm"}))
}

// isOf makes sure that a VIP is of the contender whose turn it is.
func (s *stand) isOf(c contender, vip netip.Addr) {
	s.b.Helper()
	if theirs := netip.MustParsePrefix(metallbPool).Contains(vip); theirs != (c.class != nil) {
		s.b.Fatalf("%s has got the VIP %s", c.name, vip)
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
