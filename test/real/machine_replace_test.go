package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

const replaced = "nuc2"

// page returns a page of the guides for the same shell.
func page(t *testing.T, g *Guide, name string) *Guide {
	t.Helper()
	other, err := g.Page(name)
	must(t, err)
	return other
}

// block is the nth block of commands below a heading.
func (g *Guide) block(t *testing.T, heading string, n int) string {
	t.Helper()
	blocks, err := g.Commands(heading)
	must(t, err)
	if len(blocks) <= n {
		t.Fatalf("%s: %d blocks of commands", heading, len(blocks))
	}
	return blocks[n]
}

func (g *Guide) mustRun(t *testing.T, commands string) string {
	t.Helper()
	out, err := g.Run(t.Context(), commands)
	must(t, err)
	return out
}

// waitEvent waits for an Event on a Node.
func waitEvent(t *testing.T, l *lab.Lab, node, reason, text string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		list, err := l.Kube.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no Event %s with %q on node %s:\n%s", reason, text, node, strings.Join(seen, "\n"))
	}))
}

// waitReady waits until a Node's kubelet is seen as ready, or as not.
func waitReady(t *testing.T, l *lab.Lab, name string, want bool) {
	t.Helper()
	must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error {
		n, err := l.Node(ctx, name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if i < 0 || (n.Status.Conditions[i].Status == corev1.ConditionTrue) != want {
			return fmt.Errorf("node %s: Ready is not %t", name, want)
		}
		return nil
	}))
}

// status waits until `plinth status` says something.
func (g *Guide) status(t *testing.T, want string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		out, err := g.Run(ctx, "kubectl plinth status || test $? = 1")
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("plinth status does not say %q:\n%s", want, out)
		}
		return err
	}))
}

// TestAMachineIsReplacedAsTheGuideSays has a machine die, and another one take its place,
// name and addresses.
func TestAMachineIsReplacedAsTheGuideSays(t *testing.T) {
	l, g := installed(t)
	g = page(t, g, "replace-a-machine.md")
	const section = "## Another machine in its place"
	others := []string{"nuc1", "nuc3"}
	vips := service(t, l, "everywhere", corev1.ServiceExternalTrafficPolicyLocal)
	was, err := l.Node(t.Context(), replaced)
	must(t, err)

	clients := probe(t, l, vips, 25)
	cut := time.Now()
	must(t, l.PowerOff(t.Context(), replaced))
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, others...))
	}
	clients.lostOnlyAfter(t, cut)

	clients = probe(t, l, vips, 25)
	waitReady(t, l, replaced, false)
	must(t, l.ReplaceMachine(replaced, "SN-2"))

	t.Log("the wrong order: the inventory is edited, and the new machine starts, before anybody deletes the Node")
	must(t, l.ApplyInventory(t.Context(), lab.Inventory(l.Topology)))
	const step = "run: kubectl delete node " + replaced
	waitEvent(t, l, replaced, "MachineReplaced", step)
	must(t, l.PowerOn(t.Context(), replaced))
	waitReady(t, l, replaced, true)
	g.status(t, step)
	g.status(t, "waiting for a machine of the inventory for this Node")
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, others...))
	}

	t.Log("what the message says: the Node is deleted, and the kubelet started again")
	g.mustRun(t, g.block(t, section, 0))
	clients.answeredAll(t, "the time without "+replaced)
	clients = probe(t, l, vips, 25)
	must(t, l.RestartKubelet(t.Context(), replaced))
	must(t, PlinthUp(t.Context(), l))
	t.Log(g.mustRun(t, g.block(t, section, 1)))
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip))
	}
	clients.answeredAllButCut(t, "the new "+replaced+" joining")

	is, err := l.Node(t.Context(), replaced)
	must(t, err)
	samePlace(t, was, is)
	if is.UID == was.UID || is.Spec.ProviderID != "plinth://SN-2" || is.Status.NodeInfo.SystemUUID == was.Status.NodeInfo.SystemUUID {
		t.Errorf("the Node is %s %s %s, was %s %s %s", is.UID, is.Spec.ProviderID, is.Status.NodeInfo.SystemUUID, was.UID, was.Spec.ProviderID, was.Status.NodeInfo.SystemUUID)
	}
}

// samePlace compares what belongs to the place of a machine and not to the machine.
func samePlace(t *testing.T, was, is *corev1.Node) {
	t.Helper()
	if !slices.Equal(was.Spec.PodCIDRs, is.Spec.PodCIDRs) {
		t.Errorf("pod CIDRs: were %v, are %v", was.Spec.PodCIDRs, is.Spec.PodCIDRs)
	}
	for _, label := range []string{"plinth.dev/rack", "plinth.dev/unit", "plinth.dev/row", corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable} {
		if was.Labels[label] == "" || was.Labels[label] != is.Labels[label] {
			t.Errorf("label %s: was %q, is %q", label, was.Labels[label], is.Labels[label])
		}
	}
}

// TestAMachineWithAnotherBoardKeepsItsNode has a machine come back with its disk, and with
// the system UUID of another board.
func TestAMachineWithAnotherBoardKeepsItsNode(t *testing.T) {
	l, g := installed(t)
	g = page(t, g, "replace-a-machine.md")
	const name = "nuc3"
	was, err := l.Node(t.Context(), name)
	must(t, err)
	must(t, l.PowerOff(t.Context(), name))
	must(t, l.ReplaceBoard(name))
	must(t, l.PowerOn(t.Context(), name))
	waitEvent(t, l, name, "SystemUUIDDiffers", "if its board was replaced, write match: {systemUUID: ")
	must(t, PlinthUp(t.Context(), l))

	reported := strings.TrimSpace(g.mustRun(t, strings.ReplaceAll(g.block(t, "## A board was swapped", 0), replaced, name)))
	inventory := lab.Inventory(l.Topology)
	if reported == "" || !strings.Contains(inventory, reported) {
		t.Fatalf("the kubelet reports %q", reported)
	}
	must(t, l.ApplyInventory(t.Context(), inventory))
	g.status(t, "No problems.")
	is, err := l.Node(t.Context(), name)
	must(t, err)
	samePlace(t, was, is)
	if is.UID != was.UID || is.Spec.ProviderID != was.Spec.ProviderID || is.Status.NodeInfo.SystemUUID == was.Status.NodeInfo.SystemUUID {
		t.Errorf("the Node is %s %s %s, was %s %s %s", is.UID, is.Spec.ProviderID, is.Status.NodeInfo.SystemUUID, was.UID, was.Spec.ProviderID, was.Status.NodeInfo.SystemUUID)
	}
}
