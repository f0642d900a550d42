package onlink

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
)

const (
	rack = "shelf"
	// calm is for how long every VIP has had the same single owner when a measurement begins.
	calm = 3 * time.Second
	// longest is what is waited for all VIPs to be calm. MetalLB takes half a minute after a partition.
	longest = 30 * time.Second
)

// stand is a home in which contenders take turns.
type stand struct {
	*lab.Lab
	b *testing.B
}

// turn is the turn of one contender, which serves one Service a VIP.
type turn struct {
	*stand
	named
	services map[netip.Addr]string
	vips     []netip.Addr
	home     string   // machine that all VIPs are pinned to; empty: none
	agentsOn []string // machines
	measured *results.Result
}

func newStand(b *testing.B, home lab.Topology) *stand {
	b.Helper()
	ctx := b.Context()
	home.StaticPods = true // pod routes are neither's: without any, MetalLB holds a Node to have no network
	l, err := lab.Start(ctx, home, lab.Options{Name: *labName, Progress: os.Stderr})
	check(b, err)
	s := &stand{Lab: l, b: b}
	b.Cleanup(s.remove)
	check(b, l.BuildPlinth(ctx))
	check(b, l.GrantRights(ctx))
	check(b, l.ApplyInventory(ctx, lab.Inventory(l.Topology)))
	check(b, l.StartCCM(ctx)) // for both contenders: it gives Nodes their addresses, without which no kube-proxy runs
	check(b, l.WaitReady(ctx, 90*time.Second+time.Duration(len(home.Machines()))*3*time.Second))
	s.serve()
	return s
}

// remove takes the home down, for the next one. Where something went wrong its logs stay.
func (s *stand) remove() {
	if s.b.Failed() {
		logs := filepath.Join(os.TempDir(), "plinth-bench-logs-"+*labName)
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, s.SaveLogs(logs))
	}
	if err := s.Down(context.Background()); err != nil {
		s.b.Error(err)
	}
}

// serve has the router answer as a pod would.
func (s *stand) serve() {
	s.b.Helper()
	c, err := s.ServeOutside(lab.HomeGateway)
	check(s.b, err)
	s.b.Cleanup(func() { _ = c.Close() })
}

// begin starts a contender and has it serve its Services.
func (s *stand) begin(c named, measured *results.Result) *turn {
	s.b.Helper()
	t := s.start(c, measured)
	t.exposeAll(*vips)
	t.balance()
	return t
}

// balance measures how evenly the machines share the VIPs at first ("VIPs-most", "VIPs-least"). What comes
// back takes nothing back, so cuts make it worse.
func (t *turn) balance() {
	t.b.Helper()
	owners, counts := t.settled(), []int{}
	for _, m := range t.Topology.Machines() {
		counts = append(counts, countOf(owners, m.Name))
	}
	t.tell("VIPs a machine: %v", counts)
	t.measured.Add("VIPs-most", float64(slices.Max(counts)))
	t.measured.Add("VIPs-least", float64(slices.Min(counts)))
}

// start starts a contender, which serves nothing yet.
func (s *stand) start(c named, measured *results.Result) *turn {
	s.b.Helper()
	ctx := s.b.Context()
	t := &turn{stand: s, named: c, services: map[netip.Addr]string{}, measured: measured}
	t.agentsOn = t.machineNames()
	check(s.b, c.install(ctx))
	check(s.b, c.start(ctx))
	for _, m := range s.Topology.Machines() {
		check(s.b, c.startOn(ctx, m.Name))
	}
	return t
}

// exposeAll has the contender serve so many Services, a VIP each.
func (t *turn) exposeAll(vips int) {
	t.b.Helper()
	for i := range vips {
		t.expose(fmt.Sprintf("%s-%d", t.name, i))
	}
	slices.SortFunc(t.vips, netip.Addr.Compare)
	t.settled()
}

func (t *turn) expose(name string) {
	t.b.Helper()
	s := lab.LoadBalancer(name, "")
	if t.home != "" {
		s.Annotations = map[string]string{lb.HomeAnnotation: t.home}
	}
	single, family := corev1.IPFamilyPolicySingleStack, corev1.IPv4Protocol
	if *ipv6 {
		family = corev1.IPv6Protocol
	}
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{family}
	t.serves(s)
	vips, err := t.ExposeOutside(t.b.Context(), s, t.Topology.RouterAddress(lab.HomeGateway, rack))
	check(t.b, err)
	t.vips, t.services[vips[0]] = append(t.vips, vips[0]), name
}

// settled waits until every VIP has had the same single owner for a while, and returns the owners.
func (t *turn) settled() map[netip.Addr]string {
	t.b.Helper()
	var owners map[netip.Addr]string
	since := time.Now()
	check(t.b, lab.Within(t.b.Context(), longest, func(ctx context.Context) error {
		all, err := t.OwnersOf(ctx, lab.Laptop, t.vips...)
		if err != nil {
			return err
		}
		now := map[netip.Addr]string{}
		for vip, hosts := range all {
			if len(hosts) != 1 {
				owners = nil
				return fmt.Errorf("%s: %v answer for %s", t.name, hosts, vip)
			}
			now[vip] = hosts[0]
		}
		if !sameOwners(now, owners) {
			owners, since = now, time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("%s: owners still change: %v", t.name, owners)
		}
		return nil
	}))
	return owners
}

func sameOwners(a, b map[netip.Addr]string) bool {
	for vip, owner := range a {
		if b[vip] != owner {
			return false
		}
	}
	return len(a) == len(b)
}

// finish ends a contender's turn and removes what it served.
func (t *turn) finish() {
	t.b.Helper()
	ctx := t.b.Context()
	for _, name := range t.services {
		check(t.b, t.RemoveOutside(ctx, name))
	}
	for _, m := range t.Topology.Machines() {
		check(t.b, t.endOn(ctx, m.Name, 15))
	}
	check(t.b, t.end(ctx))
}

// tell writes how a measurement went.
func (t *turn) tell(format string, args ...any) { t.tellTo(os.Stderr, format, args...) }

func (t *turn) tellTo(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s %s: %s\n", time.Now().Format("15:04:05"), t.name, fmt.Sprintf(format, args...))
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
