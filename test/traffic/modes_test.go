package traffic

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// sameRack is for direct, which knows no way from one subnet to another.
func sameRack(l *lab.Lab) func(from, to string) bool {
	return func(from, to string) bool {
		a, _ := l.Topology.RackOf(from)
		b, _ := l.Topology.RackOf(to)
		return a.Name == b.Name
	}
}

func TestPodsOfTwoRacksReachEachOtherInEveryModeWhateverRestarts(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "mesh", 4)
	story.InForce(t, l, lab.Inventory(l.Topology))
	changeMode(t, l, "fabric", "overlay", story.Anywhere)
	restarts(t, l, "overlay", story.Anywhere)
	changeMode(t, l, "overlay", "fabric", story.Anywhere)
	restarts(t, l, "fabric", story.Anywhere)
	changeMode(t, l, "fabric", "direct", sameRack(l))
	restarts(t, l, "direct", sameRack(l))
	changeMode(t, l, "direct", "fabric", sameRack(l))
}

func TestPodsOfOneSubnetReachEachOtherInEveryModeWhateverRestarts(t *testing.T) {
	l := story.Beside(t, lab.Homelab())
	story.Web(t, l, "mesh", 3)
	from := "fabric"
	for _, mode := range []string{"direct", "fabric", "overlay"} {
		changeMode(t, l, from, mode, story.Anywhere)
		restarts(t, l, mode, story.Anywhere)
		from = mode
	}
	for _, m := range l.Topology.Machines() {
		cleaned(t, l, m.Name)
	}
}

// cleaned stops a machine's agent, which leaves all in place, and has what it leaves
// removed, and nothing else.
func cleaned(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	space := l.Namespace(machine)
	must(t, netns.IP(space, "route add 10.244.200.0/24 via 10.10.1.1 proto 77", "rule add from 10.99.0.0/16 lookup 100 priority 50"))
	look := func() (ours, others []string) {
		for _, what := range []string{"-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "-o link show type vxlan"} {
			out, err := netns.Output(t.Context(), space, append([]string{"ip"}, strings.Fields(what)...)...)
			must(t, err)
			for line := range strings.Lines(out) {
				if strings.Contains(line, "proto "+story.Protocol) || strings.Contains(line, "plinth") {
					ours = append(ours, line)
				} else {
					others = append(others, line)
				}
			}
		}
		return ours, others
	}
	must(t, l.StopAgent(t.Context(), machine, syscall.SIGTERM))
	left, before := look()
	if len(left) < 10 || !strings.Contains(strings.Join(left, ""), "plinth-vxlan") {
		t.Errorf("an agent that stopped left no more than\n%s", strings.Join(left, ""))
	}
	_, err := netns.Output(t.Context(), space, filepath.Join("..", "..", "bin", "plinth-agent"), "cleanup")
	must(t, err)
	left, after := look()
	if len(left) > 0 {
		t.Errorf("cleanup left\n%s", strings.Join(left, ""))
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("cleanup touched what is not ours (-before +after):\n%s", d)
	}
}

// changeMode changes the mode live under traffic that both modes carry.
func changeMode(t *testing.T, l *lab.Lab, from, to string, keep func(from, to string) bool) {
	t.Helper()
	m := story.Mesh(t, l, keep)
	before := story.Sessions(t, l)
	if to == "fabric" { // routers are to take what they will be told
		must(t, l.ConfigureRouters(t.Context(), story.InMode(l, to)))
	}
	apply := l.ApplyInventory
	if to == "direct" && len(l.Topology.Racks) > 1 { // which takes their way from pods of two racks
		apply = l.ApplyInventoryWithLosses
	}
	begun := time.Now()
	must(t, apply(t.Context(), story.InMode(l, to)))
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error { return carried(ctx, l, to) }))
	took := time.Since(begun)
	must(t, l.ConfigureRouters(t.Context(), story.InMode(l, to)))
	story.Calm(t, m)
	must(t, m.Stop())
	if d := cmp.Diff(before, story.Sessions(t, l)); d != "" {
		t.Errorf("%s to %s: sessions were lost (-before +after):\n%s", from, to, d)
	}
	lost := tell(t, fmt.Sprintf("%s to %s, which took %v", from, to, took.Round(time.Millisecond)), m)
	if stall, err := m.Stall(); err != nil || stall > took || lost > 0 {
		t.Errorf("%s to %s took %v: %d probes were lost, a connection stood still for %v: %v", from, to, took, lost, stall, err)
	}
}

// carried reports whether every machine has the routes of a mode.
func carried(ctx context.Context, l *lab.Lab, mode string) error {
	for _, m := range l.Topology.Machines() {
		status, err := l.AgentStatus(ctx, m.Name)
		if err != nil {
			return err
		}
		tunnel := strings.Contains(status, "dev plinth-vxlan")
		links, err := netns.Output(ctx, l.Namespace(m.Name), "ip", "-o", "link")
		if err != nil {
			return err
		}
		if strings.Contains(links, "plinth-vxlan") != (mode == "overlay") {
			return fmt.Errorf("%s, mode %s: %s", m.Name, mode, links)
		}
		network := strings.Contains(status, lab.PodCIDR4.String()+" via") || strings.Contains(status, lab.PodCIDR4.String()+" nexthop")
		if tunnel != (mode == "overlay" && len(l.Topology.Racks) > 1) || network != (mode == "fabric") {
			return fmt.Errorf("%s: not in mode %s: %s", m.Name, mode, status)
		}
	}
	return l.WaitFabric(ctx)
}

// restarts restarts each agent and the API server under traffic.
func restarts(t *testing.T, l *lab.Lab, mode string, keep func(from, to string) bool) {
	t.Helper()
	m := story.Mesh(t, l, keep)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, machine := range l.Topology.Machines() {
			must(t, l.StopAgent(t.Context(), machine.Name, s))
			must(t, l.StartAgentAgain(machine.Name))
			must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
				status, err := l.AgentStatus(ctx, machine.Name)
				if err == nil && !strings.Contains(status, `"ready": true`) {
					err = fmt.Errorf("not ready: %s", status)
				}
				return err
			}))
		}
	}
	must(t, l.StopAPIServer(t.Context()))
	must(t, l.StartAPIServer(t.Context()))
	must(t, l.WaitReady(t.Context(), time.Minute))
	must(t, l.WaitFabric(t.Context()))
	story.Calm(t, m)
	must(t, m.Stop())
	lost := tell(t, mode+", agents and the API server restarted", m)
	if lost > 0 {
		t.Errorf("%s: %d probes were lost while only agents and the API server restarted", mode, lost)
	}
	if _, err := m.Stall(); err != nil {
		t.Errorf("%s: %v", mode, err)
	}
}

// tell logs the figures of a mesh and returns how many probes were lost.
func tell(t *testing.T, what string, m *lab.Mesh) (lost int) {
	t.Helper()
	stall, _ := m.Stall()
	text := fmt.Sprintf("%s: the longest wait on an open connection was %v", what, stall.Round(time.Millisecond))
	var kinds []string
	for kind := range m.Probers {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		r := m.Probers[kind].Report()
		lost += r.Lost
		text += fmt.Sprintf("\n  %s: %s", kind, r)
	}
	t.Log(text)
	return lost
}
