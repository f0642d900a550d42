package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// inMode is the lab's usual inventory with another mode of the pod network.
func inMode(l *lab.Lab, mode string) string {
	return strings.Replace(lab.Inventory(l.Topology), "mode: fabric", "mode: "+mode, 1)
}

// sameRack is for direct, which knows no way from one subnet to another.
func sameRack(l *lab.Lab) func(from, to string) bool {
	return func(from, to string) bool {
		a, _ := l.Topology.RackOf(from)
		b, _ := l.Topology.RackOf(to)
		return a.Name == b.Name
	}
}

func anywhere(string, string) bool { return true }

func TestPodsOfTwoRacksReachEachOtherInEveryModeWhateverRestarts(t *testing.T) {
	l := shared(t)
	story.Web(t, l, "mesh", 4)
	inForce(t, l, lab.Inventory(l.Topology))
	changeMode(t, l, "fabric", "overlay", anywhere)
	restarts(t, l, "overlay", anywhere)
	changeMode(t, l, "overlay", "fabric", anywhere)
	restarts(t, l, "fabric", anywhere)
	changeMode(t, l, "fabric", "direct", sameRack(l))
	restarts(t, l, "direct", sameRack(l))
	changeMode(t, l, "direct", "fabric", sameRack(l))
}

func TestPodsOfOneSubnetReachEachOtherInEveryModeWhateverRestarts(t *testing.T) {
	l := beside(t, lab.Homelab())
	story.Web(t, l, "mesh", 3)
	from := "fabric"
	for _, mode := range []string{"direct", "fabric", "overlay"} {
		changeMode(t, l, from, mode, anywhere)
		restarts(t, l, mode, anywhere)
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
				if strings.Contains(line, "proto "+protocol) || strings.Contains(line, "plinth") {
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

// mesh probes all pods for a part of a story, which begins once all reach each other.
func mesh(t *testing.T, l *lab.Lab, keep func(from, to string) bool) *lab.Mesh {
	t.Helper()
	pods, err := l.Pods(t.Context(), "mesh")
	must(t, err)
	must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error {
		for _, from := range pods {
			for _, to := range pods {
				if !keep(from.Spec.NodeName, to.Spec.NodeName) {
					continue
				}
				if err := reaches(ctx, l, from, to); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	m, err := l.ProbeMesh(t.Context(), pods, keep)
	must(t, err)
	t.Cleanup(func() { m.Stop() })
	calm(t, m)
	m.Forget()
	return m
}

// reaches asks a pod from another one in both families. Nobody may rewrite who asks.
func reaches(ctx context.Context, l *lab.Lab, from, to corev1.Pod) error {
	if len(from.Status.PodIPs) != 2 || len(to.Status.PodIPs) != 2 {
		return fmt.Errorf("pods with the addresses %v and %v, want one per family", from.Status.PodIPs, to.Status.PodIPs)
	}
	for i, ip := range to.Status.PodIPs {
		address, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return err
		}
		answer, err := l.GetFromPod(ctx, from.Spec.NodeName, from.Namespace, from.Name, lab.URL(address, 8080))
		if err != nil {
			return fmt.Errorf("from the pod on %s to %s on %s: %w", from.Spec.NodeName, ip.IP, to.Spec.NodeName, err)
		}
		if want := from.Status.PodIPs[i].IP; answer.Client != want {
			return fmt.Errorf("the pod on %s saw a request of %s come from %s", to.Spec.NodeName, want, answer.Client)
		}
	}
	return nil
}

// calm waits until each prober has lost nothing for a second.
func calm(t *testing.T, m *lab.Mesh) {
	t.Helper()
	from := time.Now()
	must(t, lab.Within(t.Context(), time.Minute, func(context.Context) error {
		for kind, p := range m.Probers {
			r := p.Report()
			if r.LastLoss.After(from) {
				from = r.LastLoss
			}
			if r.Sent == 0 || time.Since(from) < time.Second {
				return fmt.Errorf("%s: %s", kind, r)
			}
		}
		return nil
	}))
}

// changeMode changes the mode live under traffic that both modes carry.
func changeMode(t *testing.T, l *lab.Lab, from, to string, keep func(from, to string) bool) {
	t.Helper()
	m := mesh(t, l, keep)
	before := sessions(t, l)
	if to == "fabric" { // routers are to take what they will be told
		must(t, l.ConfigureRouters(t.Context(), inMode(l, to)))
	}
	begun := time.Now()
	must(t, l.ApplyInventory(t.Context(), inMode(l, to)))
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error { return carried(ctx, l, to) }))
	took := time.Since(begun)
	must(t, l.ConfigureRouters(t.Context(), inMode(l, to)))
	calm(t, m)
	must(t, m.Stop())
	if d := cmp.Diff(before, sessions(t, l)); d != "" {
		t.Errorf("%s to %s: sessions were lost (-before +after):\n%s", from, to, d)
	}
	lost := tell(t, fmt.Sprintf("%s to %s, which took %v", from, to, took.Round(time.Millisecond)), m)
	if stall, err := m.Stall(); err != nil || stall > took || lost > 0 {
		t.Errorf("%s to %s took %v: %d probes were lost, a connection stood still for %v: %v", from, to, took, lost, stall, err)
	}
}

// sessions waits until each machine's sessions are up, and returns since when they are
// and how often they were lost.
func sessions(t *testing.T, l *lab.Lab) map[string][]lab.Session {
	t.Helper()
	all := map[string][]lab.Session{}
	for _, m := range l.Topology.Machines() {
		must(t, l.WaitSessions(t.Context(), m.Name))
		list, err := l.Sessions(t.Context(), m.Name)
		must(t, err)
		all[m.Name] = list
	}
	return all
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
	m := mesh(t, l, keep)
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
	calm(t, m)
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
