package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

const (
	answersWithin = 2 * time.Minute // agents answer for what a pool begins to have a minute after the last label
	knownWithin   = 5 * time.Second // a Node that a pool has pods of
)

// TestPodsReachEachOtherUnderAPoolOverTheirCIDRs has a CNI route pods, so that no agent plans with another machine's. Pods of all
// machines ping each other, and ask each other over HTTP, while an edit gives a pool the whole network that their CIDRs are of, while agents
// begin anew, and while the edit is taken back. No packet is lost: what the pool answers for leaves out Nodes by their label. Then a Node joins that is
// no machine, with a CIDR of the pool: its pods are out of reach until then, and reached from then on.
func TestPodsReachEachOtherUnderAPoolOverTheirCIDRs(t *testing.T) {
	topology := lab.Homelab()
	topology.StaticPods = true
	l := story.Beside(t, topology)
	machines := topology.Machines()
	story.Web(t, l, "mesh", int32(len(machines)))
	givePodCIDRs(t, l)
	mesh := story.Mesh(t, l, story.Anywhere)
	free4, free6 := netip.MustParseAddr("10.244.200.1"), netip.MustParseAddr("fd00:244:0:c8::1")

	over := lab.Pool(topology, "over", lab.PodCIDR4.String(), lab.PodCIDR6.String()) + "      autoAssign: false\n"
	edited := time.Now()
	must(t, l.ApplyInventoryWithLosses(t.Context(), lab.Inventory(topology), over))
	for _, m := range machines {
		must(t, labelled(t.Context(), l, m.Name, "over"))
		must(t, answered(t.Context(), l, m.Name, free4, true))
		must(t, answered(t.Context(), l, m.Name, free6, true))
	}
	t.Logf("all machines answer for the pool %.1f s after the edit", time.Since(edited).Seconds())
	noneLost(t, mesh, "the edit")

	for _, m := range machines {
		must(t, l.StopAgent(t.Context(), m.Name, syscall.SIGKILL))
		must(t, l.StartAgentAgain(m.Name))
		must(t, l.WaitSessions(t.Context(), m.Name))
		must(t, answered(t.Context(), l, m.Name, free4, true))
	}
	noneLost(t, mesh, "agents that began anew")

	joinLater(t, l)

	must(t, l.ApplyInventory(t.Context(), lab.Inventory(topology)))
	for _, m := range machines {
		must(t, labelled(t.Context(), l, m.Name, ""))
		must(t, answered(t.Context(), l, m.Name, free4, false))
	}
	story.PauseFor(t, knownWithin) // until all agents know that no Node bears a label
	noneLost(t, mesh, "the edit that takes it back")
	must(t, mesh.Stop())
}

// givePodCIDRs writes the CIDR of each machine's pods onto its Node, as the controller manager of Kubernetes does for a CNI.
func givePodCIDRs(t *testing.T, l *lab.Lab) {
	t.Helper()
	pods, err := l.Pods(t.Context(), "mesh")
	must(t, err)
	for _, p := range pods {
		var cidrs []string
		for _, ip := range p.Status.PodIPs {
			a, err := netip.ParseAddr(ip.IP)
			must(t, err)
			block, err := a.Prefix(map[bool]int{true: 24, false: 64}[a.Is4()])
			must(t, err)
			cidrs = append(cidrs, block.String())
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}})
		must(t, err)
		_, err = l.Kube.CoreV1().Nodes().Patch(t.Context(), p.Spec.NodeName, types.MergePatchType, patch, metav1.PatchOptions{})
		must(t, err)
	}
}

// joinLater has a Node join that is no machine: the router of the rack stands for it, with one pod.
func joinLater(t *testing.T, l *lab.Lab) {
	t.Helper()
	const name, cidr, pod = "later", "10.244.77.0/24", "10.244.77.2"
	router := l.Topology.Routers[0].Name
	at := l.Topology.RouterAddress(router, l.Topology.Racks[0].Name)
	must(t, netns.IP(l.Namespace(router), "addr add "+pod+"/32 dev lo"))
	for _, m := range l.Topology.Machines() {
		must(t, netns.IP(l.Namespace(m.Name), fmt.Sprintf("route add %s via %s", cidr, at.V4)))
	}
	served, err := l.ServeOutside(router)
	must(t, err)
	t.Cleanup(func() { served.Close() })
	pods, err := l.Pods(t.Context(), "mesh")
	must(t, err)
	reached := func(ctx context.Context, from corev1.Pod) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := l.GetFromPod(ctx, from.Spec.NodeName, from.Namespace, from.Name, lab.URL(netip.MustParseAddr(pod), 8080))
		return err
	}
	for _, p := range pods {
		if err := reached(t.Context(), p); err == nil {
			t.Errorf("from %s an address is reached that the pool has and no Node: the story shows nothing", p.Spec.NodeName)
		}
	}

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}}}
	joined := time.Now()
	_, err = l.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, l.Kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	for _, p := range pods {
		must(t, lab.Within(t.Context(), knownWithin, func(ctx context.Context) error { return reached(ctx, p) }))
	}
	t.Logf("pods of a Node that joins are reached from all machines after %.1f s", time.Since(joined).Seconds())
	must(t, labelled(t.Context(), l, name, "over"))
}

// labelled waits until a Node bears the name of the pool that has addresses of it; empty: of none.
func labelled(ctx context.Context, l *lab.Lab, node, pool string) error {
	return lab.Within(ctx, answersWithin, func(ctx context.Context) error {
		n, err := l.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil && n.Labels[lb.InPoolLabel] != pool {
			err = fmt.Errorf("%s is labelled %q, want %q", node, n.Labels[lb.InPoolLabel], pool)
		}
		return err
	})
}

// answered waits until a machine answers for an address of a pool that nobody has, or not.
func answered(ctx context.Context, l *lab.Lab, machine string, address netip.Addr, want bool) error {
	return lab.Within(ctx, answersWithin, func(ctx context.Context) error {
		routes, err := netns.Output(ctx, l.Namespace(machine), "sh", "-c", "{ ip route show table 114; ip -6 route show table 114; } 2>&1 || true")
		if err != nil {
			return err
		}
		has := false
		for line := range strings.Lines(routes) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "unreachable" {
				p, err := netip.ParsePrefix(f[1])
				has = has || err == nil && p.Contains(address)
			}
		}
		if has != want {
			return fmt.Errorf("%s answers for %s: %t, want %t:\n%s", machine, address, has, want, routes)
		}
		return nil
	})
}

// noneLost fails where packets between pods were lost since the last time.
func noneLost(t *testing.T, mesh *lab.Mesh, during string) {
	t.Helper()
	story.Calm(t, mesh)
	for kind, p := range mesh.Probers {
		r := p.Report()
		t.Logf("%s, %s: %s", during, kind, r)
		if r.Lost > 0 {
			t.Errorf("%s: %d of %d %s between pods were lost, the last at %v", during, r.Lost, r.Sent, kind, r.LastLoss)
		}
	}
	mesh.Forget()
}
