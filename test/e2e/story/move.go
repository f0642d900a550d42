package story

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

// Elsewhere is where a story moves Plinth to, and back from.
const Elsewhere = "plinth-elsewhere"

// ForgetMove leaves the lab as it was found, for the stories that follow.
func ForgetMove(t *testing.T, l *lab.Lab) {
	t.Cleanup(func() {
		l.Installed = ""
		_ = l.Kube.CoreV1().Namespaces().Delete(context.Background(), Elsewhere, metav1.DeleteOptions{})
	})
}

// Move moves the installation, and returns when all of the new one is up.
func Move(t *testing.T, l *lab.Lab, from, to string) {
	t.Helper()
	must(t, l.StopCCM(t.Context(), syscall.SIGTERM))
	said, err := l.Move(t.Context(), from, to)
	must(t, err)
	t.Log(said)
	must(t, l.StartCCM(t.Context()))
	old := map[string]lab.Process{}
	for _, m := range l.Topology.Machines() {
		p, ok := l.Process("agent-" + m.Name)
		if !ok {
			t.Fatalf("there is no agent on %s", m.Name)
		}
		waiting := logged(t, p, "waiting for another agent")
		old[m.Name] = p
		must(t, l.StartAgent(t.Context(), m.Name))
		must(t, lab.Within(t.Context(), 30*time.Second, func(context.Context) error {
			if logged(t, p, "waiting for another agent") == waiting { // it has the same log
				return fmt.Errorf("the new agent of %s does not wait", m.Name)
			}
			return nil
		}))
	}
	for name, p := range old {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatalf("the agent of %s: %v", name, err)
		}
	}
	for _, p := range old {
		must(t, p.Wait(t.Context()))
	}
	must(t, l.WaitFabric(t.Context()))
}

func logged(t *testing.T, p lab.Process, text string) int {
	t.Helper()
	all, err := os.ReadFile(p.Log)
	must(t, err)
	return strings.Count(string(all), text)
}

// Placed is which Node has which pod CIDRs, and which Service which VIPs.
func Placed(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	nodes, err := l.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	services, err := l.Kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	all := map[string]string{}
	for _, n := range nodes.Items {
		all["node "+n.Name] = fmt.Sprint(n.UID, n.Spec.PodCIDRs, n.Spec.ProviderID, n.Spec.Taints, n.Labels)
	}
	for _, s := range services.Items {
		for _, i := range s.Status.LoadBalancer.Ingress {
			all["service "+s.Namespace+"/"+s.Name] += i.IP + " "
		}
	}
	return all
}
