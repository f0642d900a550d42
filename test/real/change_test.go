package real

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

// TestAnUpgradeAndADowngradeCostNoRequest gives the images another tag, which is all
// that two versions of one commit differ in, and rolls both programs forth and back.
func TestAnUpgradeAndADowngradeCostNoRequest(t *testing.T) {
	l, g := installed(t)
	const registry, now, next = "registry.example.com/plinth/", Version, Version + "-next"
	for _, m := range l.Topology.Machines() {
		for _, name := range programs {
			_, err := l.InMachine(t.Context(), m.Name, "ctr", "--namespace=k8s.io", "images", "tag", "--force", registry+name+":"+now, registry+name+":"+next)
			must(t, err)
		}
	}
	vips := slices.Concat(
		service(t, l, "everywhere", corev1.ServiceExternalTrafficPolicyCluster),
		service(t, l, "local", corev1.ServiceExternalTrafficPolicyLocal))
	for _, version := range []string{next, now} {
		clients := probe(t, l, vips, 25)
		for _, workload := range []struct{ kind, name, container string }{
			{"daemonset", "plinth-agent", "agent"},
			{"deployment", "plinth-cloud-controller-manager", "cloud-controller-manager"},
		} {
			_, err := g.Run(t.Context(), fmt.Sprintf("kubectl -n plinth-system set image %s/%s '*=%s%s:%s'\nkubectl -n plinth-system rollout status %s/%s --timeout=5m",
				workload.kind, workload.name, registry, workload.name, version, workload.kind, workload.name))
			must(t, err)
		}
		must(t, PlinthUp(t.Context(), l))
		clients.lostNone(t, "rolling out "+version)
	}
}

// TestAMachineIsTakenOutOfServiceAsTheGuideSays drains the second machine.
func TestAMachineIsTakenOutOfServiceAsTheGuideSays(t *testing.T) {
	l, g := installed(t)
	drain, err := g.Commands("## Take a machine out of service")
	must(t, err)
	vips := slices.Concat(
		service(t, l, "everywhere", corev1.ServiceExternalTrafficPolicyCluster),
		service(t, l, "local", corev1.ServiceExternalTrafficPolicyLocal))
	clients := probe(t, l, vips, 25)
	inventory := lab.Inventory(l.Topology)
	must(t, l.ApplyInventory(t.Context(), inState(inventory, "nuc2", "maintenance")))
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, "nuc1", "nuc3"))
	}
	_, err = g.Run(t.Context(), drain[0])
	must(t, err)
	clients.lostNoneButCut(t, "maintenance and drain of nuc2")

	_, err = g.Run(t.Context(), "kubectl uncordon nuc2")
	must(t, err)
	must(t, l.ApplyInventory(t.Context(), inventory))
	must(t, PlinthUp(t.Context(), l))
}

// TestAPowerCutCostsWhatTheHoldTimeAllows, and the machine serves again when it is back.
func TestAPowerCutCostsWhatTheHoldTimeAllows(t *testing.T) {
	l, _ := installed(t)
	vips := service(t, l, "everywhere", corev1.ServiceExternalTrafficPolicyLocal)
	clients := probe(t, l, vips, 25)
	cut := time.Now()
	must(t, l.PowerOff(t.Context(), "nuc3"))
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, "nuc1", "nuc2"))
	}
	clients.lostOnlyAfter(t, cut)
	must(t, l.PowerOn(t.Context(), "nuc3"))
	must(t, PlinthUp(t.Context(), l))
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, "nuc1", "nuc2", "nuc3"))
	}
}
