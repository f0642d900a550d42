package e2e

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// leaseLost is how soon the death of a controller is told: its lease lasts 15 s, and one that looks so is looked at for 5 s more.
const leaseLost = 30 * time.Second

// broken is a state in which plinth status does not say that there are no problems.
type broken struct {
	what       string
	harm       func(t *testing.T, l *lab.Lab) (mend func())
	name, says string // of a finding
	within     time.Duration
}

// TestWhatIsBrokenIsInTheStatusUntilItIsMended: what the status knows of the cluster's own parts. What it knows of VIPs has
// its stories beside those of the reasons.
func TestWhatIsBrokenIsInTheStatusUntilItIsMended(t *testing.T) {
	l := story.Shared(t)
	well := func(ctx context.Context) error { return story.AllWell(ctx, l) }
	must(t, lab.Within(t.Context(), 20*time.Second, well))
	for _, b := range []broken{
		{"the controller is dead", controllerKilled, "", "NoLeader", leaseLost},
		{"nobody has looked at an edit", editedUnderNobody, "", "InventoryUnread", 10 * time.Second},
		{"an agent is silent", agentSilenced, "w4", "AgentSilent", 10 * time.Second},
		{"another proxy serves a Service", servedByOther, "default/elsewhere", "ServedByOtherProxy", 10 * time.Second},
	} {
		t.Run(b.what, func(t *testing.T) {
			mend := b.harm(t, l)
			t.Cleanup(mend)
			must(t, lab.Within(t.Context(), b.within, func(ctx context.Context) error { return story.InStatus(ctx, l, b.name, b.says) }))
			mend()
			must(t, lab.Within(t.Context(), 30*time.Second, well))
		})
	}
}

func controllerKilled(t *testing.T, l *lab.Lab) (mend func()) {
	t.Helper()
	must(t, l.StopCCM(t.Context(), syscall.SIGKILL))
	return sync.OnceFunc(func() { must(t, l.StartCCM(context.Background())) })
}

func editedUnderNobody(t *testing.T, l *lab.Lab) (mend func()) {
	t.Helper()
	start := controllerKilled(t, l)
	must(t, l.ApplyInventory(t.Context(), lab.Inventory(l.Topology)+"# nothing but a remark\n"))
	return sync.OnceFunc(func() {
		start()
		must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology)))
	})
}

// agentSilenced kills an agent, and turns back the time at which it was last heard.
func agentSilenced(t *testing.T, l *lab.Lab) (mend func()) {
	t.Helper()
	const machine = "w4"
	must(t, l.StopAgent(t.Context(), machine, syscall.SIGKILL))
	n, err := l.Node(t.Context(), machine)
	must(t, err)
	ready := conditionOf(t, n, corev1.NodeReady)
	conditionOf(t, n, lb.FabricReady).LastHeartbeatTime = metav1.NewTime(ready.LastHeartbeatTime.Add(-13 * time.Minute))
	_, err = l.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
	return sync.OnceFunc(func() { must(t, l.StartAgentAgain(machine)) })
}

func conditionOf(t *testing.T, n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	t.Helper()
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		t.Fatalf("Node %s has no condition %s", n.Name, kind)
	}
	return &n.Status.Conditions[i]
}

func servedByOther(t *testing.T, l *lab.Lab) (mend func()) {
	t.Helper()
	service := lab.LoadBalancer("elsewhere", "elsewhere")
	service.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
	story.Expose(t, l, service)
	return sync.OnceFunc(func() { must(t, l.RemoveService(context.Background(), service.Name)) })
}
