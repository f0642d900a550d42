//go:build privileged

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/provider/agent/report"
)

// routed waits until the kernel has exactly these of our routes to pods of others.
func routed(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, "the routes are "+strings.Join(want, ", "), func() (bool, string) {
		var got []string
		for line := range strings.Lines(sh(t, "ip route show proto 114") + sh(t, "ip -6 route show proto 114")) {
			if f := strings.Fields(line); f[0] != "unreachable" {
				got = append(got, f[0]+" via "+f[2])
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want), strings.Join(got, "\n")
	})
}

// TestRoutesFollowTheLifeOfANode goes through all that can become of another machine's
// Node, in one agent.
func TestRoutesFollowTheLifeOfANode(t *testing.T) {
	_, client, proxyURL, _ := machineWithRouter(t)
	a := start(t, client, inMode(t, "direct"), t.TempDir(), proxyURL, nil)
	nodes := client.CoreV1().Nodes()
	update := func(change func(*corev1.Node)) {
		t.Helper()
		n, err := nodes.Get(t.Context(), "w2", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(n)
		if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(n *corev1.Node) {
		t.Helper()
		if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	routed(t, "10.244.2.0/24 via 10.1.0.12", "fd00:244:0:2::/64 via fd01::12")

	t.Log("its addresses change")
	update(func(n *corev1.Node) {
		n.Status.Addresses[0].Address, n.Status.Addresses[1].Address = "10.1.0.22", "fd01::22"
	})
	routed(t, "10.244.2.0/24 via 10.1.0.22", "fd00:244:0:2::/64 via fd01::22")

	t.Log("its pod CIDRs change")
	update(func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.7.0/24", "fd00:244:0:7::/64"} })
	routed(t, "10.244.7.0/24 via 10.1.0.22", "fd00:244:0:7::/64 via fd01::22")

	t.Log("it has one family only")
	update(func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[:1] })
	routed(t, "10.244.7.0/24 via 10.1.0.22")
	unroutedBecause(t, a, "w2", "NodeWithoutAddress")

	t.Log("it is deleted, and comes back with other CIDRs")
	if err := nodes.Delete(t.Context(), "w2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	routed(t)
	again := aNode("w2", "10.1.0.12", "fd01::12", "10.244.8.0/24", "fd00:244:0:8::/64")
	again.CreationTimestamp = metav1.Unix(200, 0)
	create(again)
	routed(t, "10.244.8.0/24 via 10.1.0.12", "fd00:244:0:8::/64 via fd01::12")

	t.Log("a younger one claims its CIDR, and an older one")
	younger := aNode("w4", "10.1.0.14", "fd01::14", "10.244.8.0/24", "fd00:244:0:4::/64")
	younger.CreationTimestamp = metav1.Unix(300, 0)
	create(younger)
	routed(t, "10.244.8.0/24 via 10.1.0.12", "fd00:244:0:8::/64 via fd01::12", "fd00:244:0:4::/64 via fd01::14")
	unroutedBecause(t, a, "w4", "PodCIDRInUse")
	older := aNode("w5", "10.1.0.15", "fd01::15", "10.244.8.0/24", "fd00:244:0:5::/64")
	older.CreationTimestamp = metav1.Unix(100, 0)
	create(older)
	routed(t, "10.244.8.0/24 via 10.1.0.15", "fd00:244:0:8::/64 via fd01::12", "fd00:244:0:4::/64 via fd01::14", "fd00:244:0:5::/64 via fd01::15")
	unroutedBecause(t, a, "w2", "PodCIDRInUse")

	t.Log("it moves to another rack, and is no longer on the subnet")
	if err := nodes.Delete(t.Context(), "w5", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	update(func(n *corev1.Node) {
		n.Status.Addresses[0].Address, n.Status.Addresses[1].Address = "10.2.0.12", "fd02::12"
	})
	routed(t, "fd00:244:0:4::/64 via fd01::14")
	unroutedBecause(t, a, "w2", "NodeOfOtherSubnet")
}

// unroutedBecause waits until the agent says why one of a Node's CIDRs has no route.
func unroutedBecause(t *testing.T, a running, node, reason string) {
	t.Helper()
	eventually(t, node+" is told "+reason, func() (bool, string) {
		s := a.show(t)
		return slices.ContainsFunc(s.Unrouted, func(r report.RefusalStatus) bool { return r.Node == node && r.Reason == reason }), fmt.Sprint(s.Unrouted)
	})
}

func TestAListOfNodesThatLacksOurOwnTakesNoRouteAway(t *testing.T) {
	_, client, proxyURL, _ := machineWithRouter(t)
	a := start(t, client, inMode(t, "direct"), t.TempDir(), proxyURL, nil)
	want := []string{"10.244.2.0/24 via 10.1.0.12", "fd00:244:0:2::/64 via fd01::12"}
	routed(t, want...)
	third := aNode("w3", "10.1.0.13", "fd01::13", "10.244.3.0/24", "fd00:244:0:3::/64")
	for _, list := range [][]any{{}, {third}} {
		if err := a.sources.NodeStore().Replace(list, "1"); err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 { // what such a list adds counts all the same
			want = append(want, "10.244.3.0/24 via 10.1.0.13", "fd00:244:0:3::/64 via fd01::13")
		}
		routed(t, want...)
	}
	own, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.sources.NodeStore().Replace([]any{own, third}, "2"); err != nil {
		t.Fatal(err)
	}
	routed(t, "10.244.3.0/24 via 10.1.0.13", "fd00:244:0:3::/64 via fd01::13")
}
